;; Never ends and never calls the host.
(module (func $count_for_ever (export "_start") (loop (br 0))))
