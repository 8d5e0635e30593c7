;; Polls for no time at all, for ever.
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (i32.store (i32.const 16) (i32.const 1))
    (loop
      (drop (call $poll (i32.const 0) (i32.const 128) (i32.const 1) (i32.const 256)))
      (br 0))))
