#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A KVM guest under 50 syncs, its disks in QEMU's main thread.
. "$(dirname "$0")/kvm.sh"

requires test -w /dev/kvm
start_guest
guest_survives 50
