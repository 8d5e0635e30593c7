;; Grows a table until it is told no.
(module
  (table $t 1 funcref)
  (func (export "_start")
    (loop $more
      (br_if $more (i32.ne (table.grow $t (ref.null func) (i32.const 10000)) (i32.const -1))))
    unreachable))
