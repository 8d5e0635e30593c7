(module
  (import "env" "emscripten_memcpy_js" (func (param i32 i32 i32)))
  (import "wasi_snapshot_preview1" "fd_teleport" (func))
  (import "wbg" "__wbindgen_throw" (func))
  (func (export "_start")))
