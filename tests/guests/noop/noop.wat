;; The smallest handler: a component of the contract's world that does nothing and imports no function.
;;
;; Written out by hand, so that it needs no toolchain and its cost is the host's alone. What it must
;; offer is in sdk/wit/handler.wit; its types stand here once more.
(component
  (core module $code
    (memory (export "memory") 1)
    ;; The answer's bytes start at 0 and are all zero, which reads as: ok, and no result.
    ;; 64 bytes are what the largest answer takes; what the host passes in goes above.
    (global $next (mut i32) (i32.const 64))

    (func (export "handle")
      (param $id i64) (param $kind i32) (param $kind-length i32)
      (param $attempt i32) (param $max-attempts i32)
      (param $media-type i32) (param $media-type-length i32)
      (param $payload i32) (param $payload-length i32)
      (result i32)
      i32.const 0)

    ;; Room for what the host passes in. It never asks to move or free anything: one call, then the end.
    (func (export "realloc")
      (param $old i32) (param $old-size i32) (param $align i32) (param $size i32)
      (result i32)
      (local $start i32)
      ;; start = next, rounded up to a multiple of align
      (local.set $start
        (i32.and
          (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
          (i32.sub (i32.const 0) (local.get $align))))
      (global.set $next (i32.add (local.get $start) (local.get $size)))
      (if (i32.gt_u (global.get $next) (i32.shl (memory.size) (i32.const 16)))
        (then
          (if (i32.eq
                (memory.grow
                  (i32.add (i32.shr_u (local.get $size) (i32.const 16)) (i32.const 1)))
                (i32.const -1))
            (then unreachable))))
      local.get $start)
  )
  (core instance $code (instantiate $code))
  (alias core export $code "handle" (core func $code-handle))
  (alias core export $code "memory" (core memory $memory))
  (alias core export $code "realloc" (core func $realloc))

  ;; The contract's types, by name: what is exported may only use types that have one.
  (import "stokehold:job/types@0.1.0" (instance $types
    (type $blob' (record (field "media-type" string) (field "bytes" (list u8))))
    (export "blob" (type $blob (eq $blob')))
    (type $job' (record
      (field "id" u64) (field "kind" string) (field "attempt" u32) (field "max-attempts" u32)
      (field "payload" $blob)))
    (export "job" (type $job (eq $job')))
    (type $problem' (record
      (field "message" string) (field "code" (option string)) (field "detail" (option $blob))))
    (export "problem" (type $problem (eq $problem')))
    (type $verdict' (variant
      (case "retry" $problem)
      (case "retry-after" (tuple u64 $problem))
      (case "permanent" $problem)
      (case "snooze" (tuple u64 string))
      (case "cancel" string)))
    (export "verdict" (type $verdict (eq $verdict')))))
  (alias export $types "blob" (type $blob))
  (alias export $types "job" (type $job))
  (alias export $types "verdict" (type $verdict))

  (func $handle (param "job" $job) (result (result (option $blob) (error $verdict)))
    (canon lift (core func $code-handle) (memory $memory) (realloc $realloc)))
  (instance $handler (export "handle" (func $handle)))
  (export "stokehold:job/handler@0.1.0" (instance $handler))
)
