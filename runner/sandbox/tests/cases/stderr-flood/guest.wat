;; Logs for ever: each byte costs fuel, and no more than the limit is kept.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "\40\00\00\00\00\00\01\00")
  (data (i32.const 64) "a line of a flood\0aanother line\0a")
  (func (export "_start")
    (loop (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 16))) (br 0))))
