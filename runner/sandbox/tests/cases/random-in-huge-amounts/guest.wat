;; Asks for more random bytes than are given at once.
(module
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 4)
  (func (export "_start")
    (drop (call $random (i32.const 0) (i32.const 64)))
    (if (i32.and (i32.eqz (i32.load (i32.const 0))) (i32.eqz (i32.load (i32.const 8)))) (then unreachable))))
