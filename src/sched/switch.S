/* fiber_swap(void **save, void *load): saves the callee-saved registers on this stack, its address in *save, and
 * goes on where `load` was saved. fiber_boot is where a new fiber begins. No CET note: shadow stacks stay off. */
#if defined(__x86_64__)
    .text
    .globl fiber_swap
    .type fiber_swap, @function
fiber_swap:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size fiber_swap, .-fiber_swap

    .globl fiber_boot
    .type fiber_boot, @function
fiber_boot:
    .cfi_startproc
    .cfi_undefined rip
    movq %r13, %rdi
    call *%r12
    ud2
    .cfi_endproc
    .size fiber_boot, .-fiber_boot

#elif defined(__aarch64__)
    .text
    .globl fiber_swap
    .type fiber_swap, %function
fiber_swap:
    sub sp, sp, #176
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #176
    ret
    .size fiber_swap, .-fiber_swap

    .globl fiber_boot
    .type fiber_boot, %function
fiber_boot:
    .cfi_startproc
    .cfi_undefined x30
    mov x0, x20
    blr x19
    brk #1
    .cfi_endproc
    .size fiber_boot, .-fiber_boot
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
