/* SPDX-License-Identifier: Apache-2.0 */
#include <ptmill/ptmill.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	struct ptm_config config = {.size = sizeof(config), .threads = 1};
	struct ptm_error err;
	struct ptm_session *session = ptm_session_create(&config, &err);

	printf("%s (%s)\n", ptm_version(), ptm_version_libraries());
	ptm_session_destroy(session);
	return session == NULL || strcmp(ptm_version(), PTM_VERSION_STRING) != 0;
}
