// rustc -O main.rs -l ctxgen_runtime -o run && ./run classifier_ctx.onnx
use std::ffi::{c_char, c_void, CStr, CString};
use std::ptr::null;

#[repr(C)]
struct Tensor {
    struct_size: usize,
    element_type: i32,
    rank: usize,
    dims: *const i64,
    data: *const c_void,
    size: usize,
}

type Handle = *const c_void; // session, run context, status

extern "C" {
    fn ctxgen_session_create_from_file(environment: Handle, path: *const c_char, options: Handle, session: *mut Handle) -> Handle;
    fn ctxgen_session_release(session: Handle);
    fn ctxgen_run_context_create(session: Handle, context: *mut Handle) -> Handle;
    fn ctxgen_run_context_release(context: Handle);
    fn ctxgen_run_context_set_input(context: Handle, index: usize, tensor: *const Tensor) -> Handle;
    fn ctxgen_run_context_run(context: Handle) -> Handle;
    fn ctxgen_run_context_output(context: Handle, index: usize, tensor: *mut Tensor) -> Handle;
    fn ctxgen_status_message(status: Handle) -> *const c_char;
}

fn check(status: Handle) {
    if !status.is_null() {
        eprintln!("{}", unsafe { CStr::from_ptr(ctxgen_status_message(status)) }.to_string_lossy());
        std::process::exit(1);
    }
}

fn main() {
    let path = CString::new(std::env::args().nth(1).expect("a model")).expect("a path");
    let (x, dims) = ([1.0f32; 8], [1i64, 8]);
    let size = std::mem::size_of::<Tensor>();
    let input = Tensor { struct_size: size, element_type: 1 /* float32 */, rank: 2, dims: dims.as_ptr(), data: x.as_ptr().cast(), size: 32 };
    let mut y = Tensor { struct_size: size, element_type: 0, rank: 0, dims: null(), data: null(), size: 0 };
    let (mut session, mut context): (Handle, Handle) = (null(), null());
    unsafe {
        check(ctxgen_session_create_from_file(null(), path.as_ptr(), null(), &mut session));
        check(ctxgen_run_context_create(session, &mut context));
        check(ctxgen_run_context_set_input(context, 0, &input)); // x is read where it is
        check(ctxgen_run_context_run(context));
        check(ctxgen_run_context_output(context, 0, &mut y));
        for value in std::slice::from_raw_parts(y.data as *const f32, y.size / 4) {
            print!("{value:.4} ");
        }
        println!();
        ctxgen_run_context_release(context);
        ctxgen_session_release(session);
    }
}
