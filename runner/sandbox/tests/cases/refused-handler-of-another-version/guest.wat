(component
  (core module $m (func (export "f")))
  (core instance $i (instantiate $m))
  (func $f (canon lift (core func $i "f")))
  (instance $handler (export "handle" (func $f)))
  (export "stokehold:job/handler@0.2.0" (instance $handler)))
