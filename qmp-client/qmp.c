/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
typedef int placeholder;
