// go build -o run . && ./run classifier_ctx.onnx
package main

// #cgo pkg-config: ctxgen-runtime
// #include <ctxgen_runtime.h>
import "C"

import (
	"fmt"
	"log"
	"os"
	"runtime"
	"unsafe"
)

func check(status *C.ctxgen_status) {
	if status != nil {
		log.Fatal(C.GoString(C.ctxgen_status_message(status)))
	}
}

func main() {
	var session *C.ctxgen_session
	var context *C.ctxgen_run_context
	check(C.ctxgen_session_create_from_file(nil, C.CString(os.Args[1]), nil, &session))
	defer C.ctxgen_session_release(session)
	check(C.ctxgen_run_context_create(session, &context))
	defer C.ctxgen_run_context_release(context)

	x, dims := []float32{1, 1, 1, 1, 1, 1, 1, 1}, []C.int64_t{1, 8}
	var pinned runtime.Pinner // the context reads x where it is, until it has another input
	defer pinned.Unpin()
	pinned.Pin(&x[0])
	pinned.Pin(&dims[0])
	input := C.ctxgen_tensor{_type: 1 /* float32 */, rank: 2, dims: &dims[0], data: unsafe.Pointer(&x[0]), size: 32}
	input.struct_size = C.size_t(unsafe.Sizeof(input))
	check(C.ctxgen_run_context_set_input(context, 0, &input))
	check(C.ctxgen_run_context_run(context))

	var y C.ctxgen_tensor
	y.struct_size = C.size_t(unsafe.Sizeof(y))
	check(C.ctxgen_run_context_output(context, 0, &y))
	for _, value := range unsafe.Slice((*float32)(y.data), y.size/4) {
		fmt.Printf("%.4f ", value)
	}
	fmt.Println()
}
