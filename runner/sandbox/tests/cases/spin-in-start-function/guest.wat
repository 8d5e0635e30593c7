;; Loops while it is being instantiated, before anyone calls it.
(module
  (func $init (loop (br 0)))
  (start $init)
  (func (export "_start")))
