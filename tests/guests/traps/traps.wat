;; A handler that breaks in the way that the first character of its payload names, a digit:
;;
;;   0 unreachable             5 call of an entry beyond the table
;;   1 division by zero        6 call of an empty entry of the table
;;   2 integer overflow        7 call of a function with another signature
;;   3 memory out of bounds    8 an answer at an address outside the memory
;;   4 not a number to integer 9 an answer with a text that is not UTF-8
;;
;; Any other payload: success without a result. No language lets one write these down, so they are
;; in the machine's own. For the types below see sdk/wit/handler.wit.
(component
  (core module $code
    (memory (export "memory") 1)
    ;; At 0: zeros, which read as: ok, and no result. At 64: an error (1) that cancels (4), with a
    ;; reason of two bytes at 128 that are no UTF-8.
    (data (i32.const 64) "\01\00\00\00\00\00\00\00\04\00\00\00\00\00\00\00\80\00\00\00\02\00\00\00")
    (data (i32.const 128) "\ff\fe")
    (global $next (mut i32) (i32.const 256))

    (type $nothing (func))
    (type $number (func (result i32)))
    (func $seven (type $number) (i32.const 7))
    (table 2 funcref)
    (elem (i32.const 0) $seven)

    (func (export "handle")
      (param $id i64) (param $kind i32) (param $kind-length i32)
      (param $attempt i32) (param $max-attempts i32)
      (param $media-type i32) (param $media-type-length i32)
      (param $payload i32) (param $payload-length i32)
      (result i32)
      (if (i32.eqz (local.get $payload-length)) (then (return (i32.const 0))))
      block $fine
        block $text
          block $address
            block $signature
              block $empty
                block $beyond
                  block $convert
                    block $memory
                      block $overflow
                        block $zero
                          block $unreachable
                            (br_table
                              $unreachable $zero $overflow $memory $convert
                              $beyond $empty $signature $address $text $fine
                              (i32.sub (i32.load8_u (local.get $payload)) (i32.const 0x30)))
                          end
                          unreachable
                        end
                        (drop (i32.div_s (i32.const 1) (i32.const 0)))
                      end
                      (drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))
                    end
                    (drop (i32.load (i32.const -4)))
                  end
                  (drop (i32.trunc_f32_s (f32.const nan)))
                end
                (drop (call_indirect (type $number) (i32.const 9)))
              end
              (drop (call_indirect (type $number) (i32.const 1)))
            end
            (call_indirect (type $nothing) (i32.const 0))
          end
          (return (i32.const -8))
        end
        (return (i32.const 64))
      end
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
