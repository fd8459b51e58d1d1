"""Bazel rules for context models.

    load("//rules:ctxgen.bzl", "ctxgen_compile", "ctxgen_merge")

    ctxgen_compile(name = "net", models = ["net.onnx"], data = ["net.data"], ctxgen = "//tools:ctxgen", isa = "avx2")

Every file that an action reads or writes is declared, so actions run in a sandbox and their results may come from a remote cache. What a
result depends on besides its files is the instruction set: without `isa` a compile would be for the machine that happens to run the action,
and a cache would hand that result to any other one. So `isa` has to be given; "portable" is for any x86-64 machine.
"""

CtxgenInfo = provider(
    doc = "Context models that one action wrote.",
    fields = {
        "contexts": "list of File: the context models, in the order of the batch",
        "binaries": "list of File: the context binaries that they name",
    },
)

def _stem(file):
    return file.basename[:-len(".onnx")] if file.basename.endswith(".onnx") else file.basename

def _declare(ctx, stems):
    """The files that a compile or a merge of models with these names writes."""
    context = lambda stem: ctx.actions.declare_file("{}/{}_ctx.onnx".format(ctx.label.name, stem))
    binary = lambda provider: ctx.actions.declare_file("{}/{}_{}.bin".format(ctx.label.name, stems[0], provider))
    return [context(stem) for stem in stems], [binary(provider) for provider in ctx.attr.providers]

# A sandbox may show files as links to where they are. What a model names has to be below the model's real folder, so the real one is given.
_RUN = """set -eu
program=$1 verb=$2 folder=$3 count=$4
shift 4
while [ "$count" -gt 0 ]; do
  set -- "$@" "$(realpath "$1")"
  shift
  count=$((count - 1))
done
exec "$program" "$verb" -o "$folder/" -q "$@"
"""

def _run(ctx, verb, models, inputs, options, mnemonic):
    contexts, binaries = _declare(ctx, [_stem(model).removesuffix("_ctx") if verb == "merge" else _stem(model) for model in models])
    outputs = contexts + binaries
    arguments = ctx.actions.args()
    arguments.add_all([ctx.executable.ctxgen, verb, outputs[0].dirname, len(models)])
    arguments.add_all(models)
    arguments.add_all(options)
    ctx.actions.run_shell(
        command = _RUN,
        arguments = [arguments],
        inputs = depset(models + inputs),
        outputs = outputs,
        tools = [ctx.executable.ctxgen],
        mnemonic = mnemonic,
        progress_message = "%s %%{label}" % mnemonic,
    )
    return [DefaultInfo(files = depset(outputs)), CtxgenInfo(contexts = contexts, binaries = binaries)]

def _compile_impl(ctx):
    options = ["--portable"] if ctx.attr.isa == "portable" else ["--isa", ctx.attr.isa]
    return _run(ctx, "compile", ctx.files.models, ctx.files.data, options + ["--cache-dir="] + ctx.attr.options, "CtxgenCompile")

def _merge_impl(ctx):
    infos = [target[CtxgenInfo] for target in ctx.attr.contexts]
    models = [model for info in infos for model in info.contexts]
    return _run(ctx, "merge", models, [binary for info in infos for binary in info.binaries], [], "CtxgenMerge")

_COMMON = {
    "ctxgen": attr.label(mandatory = True, executable = True, allow_single_file = True, cfg = "exec", doc = "the program ctxgen"),
    "providers": attr.string_list(default = ["dnnl"], doc = "the providers that write a context binary"),
}

ctxgen_compile = rule(
    implementation = _compile_impl,
    doc = "Compiles models into NAME/MODEL_ctx.onnx and one context binary for all of them.",
    attrs = _COMMON | {
        "models": attr.label_list(mandatory = True, allow_empty = False, allow_files = [".onnx"]),
        "data": attr.label_list(allow_files = True, doc = "external data of the models"),
        "isa": attr.string(mandatory = True, doc = "an instruction set of --isa, several with commas between, or portable"),
        "options": attr.string_list(doc = "further options of ctxgen compile that name no file"),
    },
)

ctxgen_merge = rule(
    implementation = _merge_impl,
    doc = "Writes the context models of several ctxgen_compile again with one context binary.",
    attrs = _COMMON | {"contexts": attr.label_list(mandatory = True, allow_empty = False, providers = [CtxgenInfo])},
)
