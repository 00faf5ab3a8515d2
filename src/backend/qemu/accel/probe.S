    .set HIGH, 0xffffffff800f0000
    .code16
    .globl _start
_start:
    cli
    cld
    xorw %ax, %ax
    movw %ax, %es
    movw %ax, %ss
    movw $0x7000, %sp
    movw $0x1000, %di          # page tables: 0x1000 PML4, 0x2000 PDPT, 0x3000 PD
    movw $0x1000, %cx
    xorl %eax, %eax
    rep stosl
    movl $0x2003, %es:0x1000
    movl $0x2003, %es:0x1ff8   # again in the upper half, where kernels live
    movl $0x3003, %es:0x2000
    movl $0x3003, %es:0x2ff0
    movl $0x0083, %es:0x3000   # one 2 MiB page: 0..2 MiB, this ROM at 0xf0000 included
    movl $0x4003, %es:0x2018   # ... and the local APIC's page
    movl $0xfee0009b, %es:0x4fb8
    movb $0xff, %al
    outb %al, $0xa1
    lgdtl %cs:gdtr
    movl %cr0, %eax
    orb $1, %al
    movl %eax, %cr0
    ljmpl $0x18, $0xf0000+prot
    .code32
prot:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl $0x7000, %esp
    movl %cr4, %eax
    orl $0x20, %eax            # PAE
    movl %eax, %cr4
    movl $0x1000, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx     # EFER.LME
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl %cr0, %eax
    orl $0x80000000, %eax      # paging
    movl %eax, %cr0
    ljmpl $0x08, $0xf0000+long
    .code64
long:
    movq $HIGH+upper, %rax
    jmp *%rax
upper:
    movq $0xffffffff80007000, %rsp
    lgdt gdtr64(%rip)
    lidt idtr64(%rip)
    movb $0x11, %al            # PIC: vectors from 0x20, only the timer unmasked
    outb %al, $0x20
    movb $0x20, %al
    outb %al, $0x21
    movb $0x04, %al
    outb %al, $0x21
    movb $0x01, %al
    outb %al, $0x21
    movb $0xfe, %al
    outb %al, $0x21
    movb $0x34, %al            # PIT: 1 kHz
    outb %al, $0x43
    movb $0xa9, %al
    outb %al, $0x40
    movb $0x04, %al
    outb %al, $0x40
    movl $0xfee00000, %esi     # local APIC: PIC through LINT0, own timer on 0x21
    movl $0x1ff, 0xf0(%rsi)
    movl $0x700, 0x350(%rsi)
    movl $0x0b, 0x3e0(%rsi)
    movl $0x20021, 0x320(%rsi)
    movl $1000000, 0x380(%rsi)
    xorl %ebx, %ebx
    btsq $40, %rbx             # 64-bit registers, or the test below fails
    movq %rbx, %r15
    movq %rbx, %r14
    sti
    movl $50000000, %ecx       # real hardware: an instant; an instruction emulator: a minute
1:  addq %rcx, %rdx
    subq $1, %rcx
    jnz 1b
wait:
    sti
    hlt
    cli
    movq %r15, %rax
    subq %rbx, %rax
    cmpq $10, %rax
    jb wait
    movq %r14, %rax
    subq %rbx, %rax
    cmpq $10, %rax
    jb wait
    movb $0x2a, %al
    outb %al, $0xf4
stop:
    hlt
    jmp stop
tick:
    pushq %rax
    incq %r15
    movb $0x20, %al
    outb %al, $0x20
    popq %rax
    iretq
beat:
    incq %r14
    movl $0, 0xb0(%rsi)
    iretq
    .balign 8
gdt:
    .quad 0
    .quad 0x00af9b000000ffff   # 0x08 64-bit code
    .quad 0x00cf93000000ffff   # 0x10 data
    .quad 0x00cf9b000000ffff   # 0x18 32-bit code
gdtr:
    .word gdtr-gdt-1
    .long 0xf0000+gdt
gdtr64:
    .word gdtr-gdt-1
    .quad HIGH+gdt
idtr64:
    .word 0x21f
    .quad HIGH+gate-0x200
    .balign 8
gate:                          # vectors 0x20, 0x21
    .word tick
    .word 0x08
    .word 0x8e00
    .word 0x800f
    .long 0xffffffff
    .long 0
    .word beat
    .word 0x08
    .word 0x8e00
    .word 0x800f
    .long 0xffffffff
    .long 0
