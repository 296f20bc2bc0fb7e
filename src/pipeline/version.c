/* SPDX-License-Identifier: Apache-2.0
 *
 * version.c - what this library is and what it was built with.
 */
#include "ptmill/ptmill.h"

#include "ptm_libraries.h"

const char *ptm_version(void)
{
	return PTM_VERSION_STRING;
}

const char *ptm_version_libraries(void)
{
	return PTM_LIBRARIES;
}
