;; Logs one line with one field.
(module
  (import "stokehold:job/log@0.1.0" "emit" (func $emit (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 4096))
  (data (i32.const 512) "card declined")
  (data (i32.const 544) "card-declined")
  ;; One field: name at 544 of 4 bytes, value at 512 of 4 bytes.
  (data (i32.const 600) "\20\02\00\00\04\00\00\00\00\02\00\00\04\00\00\00")
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $start i32)
    (local.set $start (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $start) (local.get 3)))
    (local.get $start))
  ;; The answer stands at 64: 0 ok or 1 error, at 72 its payload.
  (func $handle (export "stokehold:job/handler@0.1.0#handle")
    (param $id i64) (param $kind i32) (param $kind_len i32) (param $attempt i32) (param $most i32)
    (param $type i32) (param $type_len i32) (param $bytes i32) (param $bytes_len i32)
    (result i32)
    (call $emit (i32.const 3) (i32.const 512) (i32.const 13) (i32.const 600) (i32.const 1))
    (i32.const 64)))
