// java --enable-native-access=ALL-UNNAMED Run.java classifier_ctx.onnx   (Java 22 or later)
import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.SymbolLookup;
import java.util.Locale;

class Run {
  static final Linker LINKER = Linker.nativeLinker();
  static final SymbolLookup LIBRARY = SymbolLookup.libraryLookup("libctxgen_runtime.so.1", Arena.global());
  // struct_size, type, rank, dims, data, size
  static final StructLayout TENSOR =
      MemoryLayout.structLayout(JAVA_LONG, JAVA_INT, MemoryLayout.paddingLayout(4), JAVA_LONG, ADDRESS, ADDRESS, JAVA_LONG);

  /** Calls a function that gives a status. */
  static void call(String name, FunctionDescriptor type, Object... arguments) throws Throwable {
    var status = (MemorySegment) LINKER.downcallHandle(LIBRARY.findOrThrow(name), type).invokeWithArguments(arguments);
    if (status.equals(MemorySegment.NULL)) return;
    var message = LINKER.downcallHandle(LIBRARY.findOrThrow("ctxgen_status_message"), FunctionDescriptor.of(ADDRESS, ADDRESS));
    throw new IllegalStateException(((MemorySegment) message.invoke(status)).reinterpret(Long.MAX_VALUE).getString(0));
  }

  static void release(String name, MemorySegment handle) throws Throwable {
    LINKER.downcallHandle(LIBRARY.findOrThrow(name), FunctionDescriptor.ofVoid(ADDRESS)).invoke(handle);
  }

  public static void main(String[] arguments) throws Throwable {
    try (var arena = Arena.ofConfined()) {
      var none = MemorySegment.NULL;
      var handle = arena.allocate(ADDRESS);
      call("ctxgen_session_create_from_file", FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS),
          none, arena.allocateFrom(arguments[0]), none, handle);
      var session = handle.get(ADDRESS, 0);
      call("ctxgen_run_context_create", FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS), session, handle);
      var context = handle.get(ADDRESS, 0);

      var tensor = arena.allocate(TENSOR);
      tensor.set(JAVA_LONG, 0, TENSOR.byteSize());
      tensor.set(JAVA_INT, 8, 1); // float32
      tensor.set(JAVA_LONG, 16, 2);
      tensor.set(ADDRESS, 24, arena.allocateFrom(JAVA_LONG, 1, 8));
      tensor.set(ADDRESS, 32, arena.allocateFrom(JAVA_FLOAT, 1, 1, 1, 1, 1, 1, 1, 1)); // read where it is
      tensor.set(JAVA_LONG, 40, 32);
      var indexed = FunctionDescriptor.of(ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
      call("ctxgen_run_context_set_input", indexed, context, 0L, tensor);
      call("ctxgen_run_context_run", FunctionDescriptor.of(ADDRESS, ADDRESS), context);
      call("ctxgen_run_context_output", indexed, context, 0L, tensor);
      var size = tensor.get(JAVA_LONG, 40);
      for (float value : tensor.get(ADDRESS, 32).reinterpret(size).toArray(JAVA_FLOAT)) {
        System.out.printf(Locale.ROOT, "%.4f ", value);
      }
      System.out.println();
      release("ctxgen_run_context_release", context);
      release("ctxgen_session_release", session);
    }
  }
}
