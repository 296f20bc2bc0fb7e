/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.h - what is UTF-8 and what is not.
 */
#ifndef PTM_OS_UTF8_H
#define PTM_OS_UTF8_H

#include <stddef.h>

/* Length of the UTF-8 sequence at @s, which ends in a NUL; 0 if it is none (Unicode, table 3-7: no
 * overlong forms, no surrogates). */
size_t ptm_utf8_len(const unsigned char *s);

#endif
