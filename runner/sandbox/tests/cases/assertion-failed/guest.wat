;; What wasi-libc prints when an assertion fails.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  ;; At 0: the address and length of the text at 64.
  (data (i32.const 0) "\40\00\00\00\34\00\00\00")
  (data (i32.const 64) "Assertion failed: amount > 0 (charge.c: charge: 12)\0a")
  (func (export "_start")
    (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 16)))
    unreachable))
