"""ONNX Runtime's own tests of EPContext models, the Compile API, plugin EPs and compatibility, written again for our plugin.

./dev plugin-matrix runs them in each library and writes docs/onnxruntime-tests.md. `TESTS` has a row for each test of theirs: its file and name,
and our check or the reason why it does not apply.
"""

import dataclasses

import ort_loading as load
import ort_making as make
from ort_making import NotApplicable


@dataclasses.dataclass(frozen=True)
class Row:
    """A test of ONNX Runtime's, and a check of ours or why there is none."""

    file: str
    name: str
    check: object


PYTHON = "test/python/onnxruntime_test_python_compile_api.py"
EXECUTION = "test/autoep/test_execution.cc"
COMPATIBILITY = "test/framework/ep_compatibility_test.cc"
QNN = "test/providers/qnn/qnn_ep_context_test.cc"
SELECTION = "test/autoep/test_selection.cc"
REGISTRATION = "test/autoep/test_registration.cc"
PACKAGE = "test/autoep/test_model_package.cc"
DATA = "test/autoep/ep_context_data_utils_test.cc"

HEADINGS = {
    PYTHON: "Compile API",
    EXECUTION: "Plugin EPs",
    COMPATIBILITY: "Compatibility",
    QNN: "EPContext models",
    SELECTION: "Selection",
    REGISTRATION: "Registration",
    PACKAGE: "Model packages",
    DATA: "Context data",
}

OF_ANOTHER_EP = "of an execution provider of its own, not of plugins in general"
KERNELS = "of plugins that register kernels; ours compiles"
INSIDE = "of functions inside ONNX Runtime, where no plugin is called"
ARGUMENTS = "of the checks of ONNX Runtime's own arguments, where no plugin is called"
OTHER_HARDWARE = "of devices that are not CPUs"

TESTS = [
    Row(file, name, check)
    for file, rows in {
        PYTHON: {
            "test_compile_with_files_prefer_npu_policy": OTHER_HARDWARE,
            "test_compile_shared_resources_plugin_ep": make.a_shared_context,
            "test_compile_with_ep_selection_delegate": load.a_function_selects,
            "test_compile_with_input_and_output_files": make.file_to_file,
            "test_compile_flags_error_if_no_compiled_nodes": make.error_if_nothing_is_compiled,
            "test_compile_flags_error_if_output_file_exists": make.error_if_the_output_exists,
            "test_compile_to_file_with_input_model_in_buffer": make.buffer_to_file,
            "test_compile_from_buffer_to_buffer": make.buffer_to_buffer,
            "test_compile_graph_optimization_level": make.optimization_level,
            "test_compile_from_file_to_stream": make.to_stream,
            "test_compile_to_stream_that_raises_exception": make.stream_that_fails,
            "test_compile_with_basic_initializer_location_func": make.initializers_by_a_function,
            "test_compile_with_initializer_func_that_reuses": make.initializers_stay_where_they_are,
            "test_fail_load_uncompiled_model_and_then_compile": make.must_be_compiled_first,
            "test_compile_model_with_outer_scope_initializer_used_only_in_subgraph": make.an_initializer_of_a_body,
        },
        EXECUTION: {
            "PluginEp_AppendV2_MulInference": load.named_device,
            "PluginEp_PreferCpu_MulInference": load.prefer_cpu,
            "PluginEp_AppendV2_PartiallySupportedModelInference": load.partly_supported,
            "PluginEp_GenEpContextModel": make.not_embedded,
            "PluginEp_GenEpContextModel_ErrorOutputModelExists_AutoGenOutputModelName": make.an_existing_model_of_the_default_name_stays,
            "PluginEp_Error_LoadCompiledModelWithEpContextEnabled": make.a_compiled_model_again,
            "PluginEp_CompatibilityInfo_WrittenToMetadata": load.fingerprint_is_written,
            "PluginEp_CompatibilityInfo_ValidatedOnLoad": load.unsupported,
            "PluginEp_VirtGpu_GenEpContextModel": OTHER_HARDWARE,
            "PluginEp_CpuDevice_ReturnsCompatible": load.devices,
            "PluginEp_GpuDevice_ReturnsInCompatible": load.devices,
            "KernelPluginEp_Inference, KernelPluginEp_ControlFlow_If, _Loop, _Scan": KERNELS,
            "PluginEp_Custom_Op_Inference_With_Explicit_Ep, _With_Prefer_Cpu": "of plugins with operators of their own; ours has none",
            "profiling of plugin EPs (pull request 27649)": load.profile,
            "Session_GetEpGraphAssignmentInfo (pull request 26781)": load.assignment,
        },
        COMPATIBILITY: {
            "TestCompatibilityStringGeneration, TestCompatibilityStringStorage": load.fingerprint_is_written,
            "TestMultipleEpCompatibilityStrings": load.fingerprints_of_several,
            "TestEmptyCompatibilityString": load.not_applicable_verdict,
            "TestCompatibilityValidation_Optimal": load.optimal,
            "TestCompatibilityValidation_Suboptimal_DefaultSettings, _Suboptimal_FailEnabled": load.suboptimal,
            "TestCompatibilityValidation_Unsupported": load.unsupported,
            "TestCompatibilityValidation_NotApplicable": load.not_applicable_verdict,
            "TestMissingCompatibilityInfo": load.no_fingerprint,
            "TestEpValidationFailure": load.a_fingerprint_that_is_none,
            "TestEarlyValidation_FailsBeforeGetCapability": load.refused_before_any_work,
            "TestEarlyValidation_SucceedsAndProceedsToGetCapability": load.accepted_and_work_goes_on,
            "TestSessionOptionConfiguration": INSIDE,
            "EpCompatibilityCapiTest.InvalidArguments, GetCompatibilityInfoFromModel_InvalidArgs, GetCompatibilityInfoFromModelBytes_InvalidArgs": ARGUMENTS,
            "CpuEpReturnsNotApplicableIfNoValidation, SingleDeviceCpuProvider": OF_ANOTHER_EP,
            "GetCompatibilityInfoFromModel_FileNotFound": load.fingerprint_of_a_missing_file,
            "GetCompatibilityInfoFromModelBytes_InvalidModelData": load.fingerprint_of_other_bytes,
            "GetCompatibilityInfoFromModelBytes_WithMetadata": load.fingerprint_of_bytes,
            "GetCompatibilityInfoFromModelBytes_NotFound": load.fingerprint_that_is_not_there,
            "EpCompatibilityCxxApiTest.GetCompatibilityInfoFromModelBytes": load.fingerprint_of_a_file,
        },
        QNN: {
            "CompileApi_DisableEpCompile_ThenCompileExplicitly": make.must_be_compiled_first,
            "CompileApi_FromSessionOptions_InputModelFromPath": make.file_to_file,
            "CompileApi_FromSessionOptions_InputModelAsBuffer_Embedded": make.buffer_to_file,
            "CompileApi_FromSessionOptions_OutputModelBuffer": make.to_buffer,
            "CompileApi_FromSessionOptions_InputAndOutputModelsInBuffers": make.buffer_to_buffer,
            "CompileApi_FromSessionOptions_OutputModelBuffer_OutputInitializersFile": make.buffer_and_initializers_file,
            "CompileApi_SetFlags_ErrorIfNoCompiledNodes": make.error_if_nothing_is_compiled,
            "CompileApi_SetFlags_ErrorIfOutputFileAlreadyExists": make.error_if_the_output_exists,
            "CompileApi_ErrorIfCompilingACompiledModel": make.a_compiled_model,
            "CompileApi_InputFile_WriteOutputModelBytes": make.to_stream,
            "CompileApi_OutputStream_ReturnStatus": make.stream_that_fails,
            "CompileApi_InputFile_OutputFile_InitializerHandler": make.initializers_by_a_function,
            "CompileApi_InitializerHandler_ReuseExternalInitializers": make.initializers_stay_where_they_are,
            "QnnContextBinary_OriginalCompileApproach_NoCompiledNodesDoesntGenerateOutput": make.no_file_without_compiled_nodes,
            "QnnContextBinary_OriginalCompileApproach_IgnoreCompilingOfCompiledModel": make.a_compiled_model_again,
            "QnnContextBinaryMultiPartitionSupport1, QnnContextBinaryMultiPartitionSupport2": make.several_partitions,
            "QnnContextBinaryCpuNodeWithExternalWeights": make.initializers_outside,
            "QnnContextBinaryCpuNodeWithoutExternalWeights": make.initializers_inside,
            "QnnContextBinaryCpuNodeWithoutExternalWeightsModelFromMemory": make.initializers_inside_from_memory,
            "QnnContextBinaryGenerationFolderPathNotExpected, ...2": make.a_folder_is_no_file,
            "QnnContextBinaryGenerationNoOverWrite": make.an_existing_model_stays,
            "QnnContextBinaryGeneration2InputTypes": make.inputs_of_two_types,
            "QnnContextGeneration2InputsOrderIssue, QnnContextBinary2InputsTest": make.the_order_of_inputs,
            "QnnContextGenerationNodeNamePrefix": make.a_prefix,
            "QnnContextBinaryCacheEmbedModeTest": make.embedded,
            "QnnContextBinaryCacheNonEmbedModeTest": make.not_embedded,
            "QnnContextBinaryCache_InvalidGraph": load.a_missing_bin,
            "QnnContextBinaryRelativePathTest": load.a_relative_path_that_leaves,
            "QnnContextBinaryAbsolutePathTest": load.an_absolute_path,
            "QnnContextBinaryFileNotExistTest": load.a_file_that_is_not_there,
            "QnnContextBinaryFileEmptyStringTest": load.no_name,
            "QnnContextBinaryCache_SingleNodeNameNotMatchGraphNameInCtx": load.another_name_of_the_node,
            "QnnMultiContextEmbeded": load.two_embedded_contexts,
            "QnnMultiContextExternal": load.two_contexts,
            "QnnContextShareAcrossSessions": make.sessions_that_share,
            "QnnContextGenWeightSharingSessionAPI": make.a_shared_context,
            "LoadFromArrayWithQnnEpContextGenPathValidation": make.a_model_from_memory_needs_a_path,
            "QnnEpDynamicOptions": load.dynamic_options,
            "VTCMBackupBufferSharing, ModelCompatibility_* (Trad and Hnrd)": OF_ANOTHER_EP,
        },
        SELECTION: {
            "PreferCpu": load.prefer_cpu,
            "PolicyDelegate": load.a_function_selects,
            "PolicyDelegateSelectsNothing": load.a_function_selects_nothing,
            "PolicyDelegateReturnsError": load.a_function_fails,
            "CpuEP, MiscApiTests": OF_ANOTHER_EP,
            "CudaEP, DmlEP, WebGpuEP, PreferGpu, PreferNpu": OTHER_HARDWARE,
        },
        REGISTRATION: {
            "LoadUnloadPluginLibrary, LoadUnloadPluginLibraryCxxApi": load.registered_and_unregistered,
            "LoadUnloadPluginVirtGpuLibraryCxxApi": OTHER_HARDWARE,
        },
        PACKAGE: {
            "CpuSelectionAndRepeatedSessionCreation and others that load a variant": load.a_package,
            "variants that do not fit": load.a_package_that_fits_nothing,
            "SchemaVersionReturnsMajorAndMinor, PackageContextQueries, ResolveStringRef, QueryPointersRemainValidAndErrorsPreserveOutputs": INSIDE,
            "LegacyProviderFactoryIsRetained and others with recording providers": OF_ANOTHER_EP,
        },
        DATA: {
            "ReadFuncIsReturnedByEpApi, ConfigReturnsConfiguredCallbacks, WriteFuncCanBeSetOnModelCompilationOptions": load.data_by_functions,
            "AccessorsReturnNullWhenCallbacksUnset, ReadFuncCanBeCleared, WriteFuncCanBeCleared": load.without_functions,
            "read functions that fail": load.data_that_is_not_there,
            "write functions that fail": load.data_cannot_be_written,
            "names that lead out of the model's folder": load.data_names_that_leave,
            "a context that models share": load.data_of_a_shared_context,
            "ApiRejectsInvalidArguments, ConfigIsAnImmutableSnapshotOfSessionOptions": ARGUMENTS,
        },
    }.items()
    for name, check in rows.items()
]


def run(application):
    """By row: "passed", "failed: ..." or "not applicable: ...". A check that several rows name runs once."""
    outcomes = {}
    for row in TESTS:
        if isinstance(row.check, str):
            outcomes[row] = f"not applicable: {row.check}"
            continue
        known = next((outcomes[other] for other in outcomes if other.check is row.check), None)
        outcomes[row] = known or run_one(application, row.check)
    return outcomes


def run_one(application, check):
    try:
        check(application)
    except NotApplicable as reason:
        return f"not applicable: {reason}"
    except Exception as error:  # a check that breaks is a failure of its row, not of the matrix
        return f"failed: {type(error).__name__}: {error}"
    return "passed"


def write_page(path, by_release, more):
    """The table of outcomes; `by_release`: rows and outcomes by the name of a release, oldest first. `more`: lines that follow."""
    releases = list(by_release)
    notes = []

    def cell(row, release):
        outcome = by_release[release][row]
        if not outcome.startswith("not applicable: "):
            return outcome.split(":")[0]
        reason = outcome.removeprefix("not applicable: ")
        if reason not in notes:
            notes.append(reason)
        return f"n/a ({notes.index(reason) + 1})"

    more_headings = [line.removeprefix("## ") for line in more if line.startswith("## ")]
    lines = [
        "# ONNX Runtime's own tests",
        "",
        "What ONNX Runtime's tests of EPContext models, the Compile API, plugin execution providers and compatibility check, written again for our plugin (`tests/plugin/ort_tests.py`), in",
        "each release as a C++ application loads it. Written by `./dev plugin-matrix VERSION... --page`; the names are those of ONNX Runtime's repository, below `onnxruntime/`.",
        "",
        *(f"- [{heading}](#{heading.lower().replace(' ', '-')})" for heading in [*HEADINGS.values(), "Not applicable", *more_headings]),
    ]
    for file, heading in HEADINGS.items():
        lines += ["", f"## {heading}", "", f"`{file}`", "", "| Test | Ours | " + " | ".join(releases) + " |", "|---|---|" + "---|" * len(releases)]
        for row in TESTS:
            if row.file == file:
                ours = "" if isinstance(row.check, str) else f"`{row.check.__name__}`"
                name = row.name.replace("_*", "_\\*")
                lines.append(f"| {name} | {ours} | " + " | ".join(cell(row, release) for release in releases) + " |")
    lines += ["", "## Not applicable", "", *(f"{index}. {reason}" for index, reason in enumerate(notes, 1)), *more]
    path.write_text("\n".join(lines) + "\n")
