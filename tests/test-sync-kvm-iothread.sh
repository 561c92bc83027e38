#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A KVM guest under 50 syncs, its disks in an iothread each.
. "$(dirname "$0")/kvm.sh"

requires test -w /dev/kvm
start_guest iothread
guest_survives 50
