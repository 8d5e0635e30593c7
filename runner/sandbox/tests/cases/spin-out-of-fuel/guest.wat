;; Never ends: the same loop, with less fuel than time.
(module (func (export "_start") (loop (br 0))))
