# SPDX-License-Identifier: BSD-3-Clause
# writer.s: a guest of 512 bytes that writes for ever, and whose every write can
# be replayed (replay.py).  It boots from its first virtio-blk disk and, in
# real mode through SeaBIOS, writes counter c = 1, 2, 3, ... as follows:
#   x = x * 1103515245 + 12345 (32 bits, first x = 12345)
#   sector = 2048 + (x >> 8 & 0x3ffff); sectors = 1, 8, 8 or 128 by x >> 28 & 3
#   every 32-bit word of those sectors = c
# first to disk A (0x80), then to disk B (0x81) if the byte at 509 is 1.
# On the debug console (-debugcon file:LOG): 'W' after each round, 'E' for a
# write that failed, 'G' and a byte when the gap since the last round was
# 4 or more units of 2^24 TSC ticks.
#
#   as --32 -o writer.o writer.s && ld -m elf_i386 -Ttext 0x7c00 --oformat binary -o writer.bin writer.o
#
# A disk must have at least 2048 + 0x40000 + 128 sectors (132 MiB holds them);
# write writer.bin to sector 0 of disk A.  SeaBIOS may split a write of 128
# sectors into two requests, so an instant can hold half of the newest one.
.code16
.globl _start
_start:
  cli
  xor %ax,%ax
  mov %ax,%ds
  mov %ax,%ss
  mov $0x7000,%sp
  sti
round:
  incl counter
  movl x,%eax                   # next x
  imull $1103515245,%eax,%eax
  addl $12345,%eax
  movl %eax,x
  movl %eax,%ebx                # sector
  shrl $8,%ebx
  andl $0x3FFFF,%ebx
  addl $2048,%ebx
  movl %ebx,sector
  shrl $28,%eax                 # length
  and $3,%ax
  mov $8,%cx
  cmp $0,%ax
  jne 1f
  mov $1,%cx
1: cmp $3,%ax
  jne 2f
  mov $128,%cx
2: mov %cx,sectors
  shl $7,%cx                    # fill the buffer at 0x1000:0 with the counter
  mov $0x1000,%ax
  mov %ax,%es
  xor %di,%di
  movl counter,%eax
  cld
  rep stosl
  mov $0x80,%dl
  call write
  cmpb $0,two_disks
  je 3f
  mov $0x81,%dl
  call write
3: rdtsc                        # gap since the last round
  shrd $24,%edx,%eax
  movl last,%ebx
  movl %eax,last
  subl %ebx,%eax
  cmpl $4,%eax
  jb 5f
  cmpl $255,%eax
  jbe 4f
  movl $255,%eax
4: mov %ax,%bx
  mov $'G',%al
  out %al,$0xe9
  mov %bx,%ax
  out %al,$0xe9
5: mov $'W',%al
  out %al,$0xe9
  jmp round
write:                          # int 13h, extended write, packet at 'packet'
  mov $packet,%si
  mov $0x4300,%ax
  int $0x13
  jc failed
  ret
failed:
  mov $'E',%al
  out %al,$0xe9
  ret
x: .long 12345
counter: .long 0
last: .long 0
packet: .byte 0x10,0
sectors: .word 128
  .word 0x0000,0x1000
sector: .long 8192
  .long 0
.org 509
two_disks: .byte 1
.org 510
.word 0xaa55
