#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A guest under many syncs, its disks in QEMU's main thread.
. "$(dirname "$0")/kvm.sh"

start_guest
guest_survives
