;; A command that sleeps for as many milliseconds as its payload says (a decimal number, such as
;; `100` or `"100"`) and ends with exit code 0.
;;
;; It waits in one call of the host, as a handler does that waits for somebody else: while it sleeps
;; it takes a slot and memory and no processor.
(module
  (import "wasi_snapshot_preview1" "fd_read"
    (func $fd-read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff"
    (func $poll-oneoff (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)

  ;; 0: one iovec, of 32 bytes at 64. 16: how many were read. 128: one subscription, of 48 bytes,
  ;; all zero but the clock (1, the monotonic one) at 16 and the time in nanoseconds at 24.
  ;; 256: one event. 16: how many events.
  (data (i32.const 0) "\40\00\00\00\20\00\00\00")
  (data (i32.const 144) "\01")

  (func (export "_start")
    (local $at i32) (local $end i32) (local $digit i32) (local $ms i64)
    (drop (call $fd-read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 16)))
    (local.set $at (i32.const 64))
    (local.set $end (i32.add (i32.const 64) (i32.load (i32.const 16))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $digit (i32.sub (i32.load8_u (local.get $at)) (i32.const 48)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (if (i32.lt_u (local.get $digit) (i32.const 10))
          (then
            (local.set $ms
              (i64.add
                (i64.mul (local.get $ms) (i64.const 10))
                (i64.extend_i32_u (local.get $digit))))))
        (br $next)))
    (i64.store (i32.const 152) (i64.mul (local.get $ms) (i64.const 1000000)))
    (drop (call $poll-oneoff (i32.const 128) (i32.const 256) (i32.const 1) (i32.const 16)))))
