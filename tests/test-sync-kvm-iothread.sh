#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A guest under many syncs, its disks in an iothread each.
. "$(dirname "$0")/kvm.sh"

start_guest iothread
guest_survives
