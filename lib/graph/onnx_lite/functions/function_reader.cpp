#include <algorithm>

#include "read/import_context.h"
#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

namespace ff = field::function;

namespace {

constexpr std::size_t kMaxPrefixBytes = 64;

std::vector<std::string> copies(std::span<const std::string_view> texts) {
  return {texts.begin(), texts.end()};
}

// The value that stands for an argument of the call in the function's body.
Status bind_inputs(ImportContext& context, Scope& scope, const NodeText& call,
                   const FunctionText& function, Scope& body, FunctionCall& record) {
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    const std::string_view name = i < call.inputs.size() ? call.inputs[i] : "";
    const auto id = name.empty() ? std::optional(ValueId{}) : scope.resolve(name);
    if (!id) {
      context.met_later_name = true;
      return fail(ErrorCode::kInvalidGraph, "{}: input \"{}\" has no source", call.describe(),
                  name);
    }
    body.bind(function.inputs[i], *id);
    if (i < call.inputs.size()) record.inputs.push_back(*id);
  }
  return {};
}

Status bind_outputs(ImportContext& context, Scope& scope, const NodeText& call,
                    const FunctionText& function, Scope& body, FunctionCall& record) {
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    ValueId id;
    if (!call.outputs[i].empty()) {
      id = scope.declare(call.outputs[i]);
      if (scope.build().is_defined(id) ||
          std::ranges::find(record.outputs, id) != record.outputs.end()) {
        context.met_later_name = true;
        return fail(ErrorCode::kInvalidGraph, "{}: value \"{}\" is defined twice", call.describe(),
                    call.outputs[i]);
      }
      if (!body.is_bound(function.outputs[i])) body.bind(function.outputs[i], id);
    }
    record.outputs.push_back(id);
  }
  return {};
}

// A function may hand an input on, or give one value out twice: only then its outputs are not
// defined by its nodes.
Status pass_through(const Model& model, Scope& body, const NodeText& call,
                    const FunctionText& function, const FunctionCall& record) {
  GraphBuild& build = body.build();
  for (std::size_t i = 0; i < record.outputs.size(); ++i) {
    const ValueId output = record.outputs[i];
    if (!output.valid() || build.is_defined(output)) continue;
    const auto source = body.resolve(function.outputs[i]);
    if (!source || !source->valid())
      return fail(ErrorCode::kInvalidGraph, "{}: the function does not give output \"{}\"",
                  call.describe(), function.outputs[i]);
    Node identity;
    identity.op_type = "Identity";
    // The model's version where it has one, so that the node can be written.
    identity.opset = model.opset("").value_or(body.opset("").value_or(1));
    identity.inputs = {*source};
    identity.outputs = {output};
    identity.call = build.call;
    build.define(output);
    build.graph.add_node(std::move(identity));
  }
  return {};
}

Status read_body(ImportContext& context, Scope& body, const FunctionText& function) {
  const std::size_t bound = function.inputs.size() + function.outputs.size();
  CTXGEN_CHECK(context.count_expanded(bound * kExpandedValueBytes));
  for (const Message node : function.nodes) {
    CTXGEN_CHECK(context.count_expanded(node.size() + kExpandedNodeBytes));
    CTXGEN_CHECK(read_node(context, body, node));
  }
  return {};
}

// Short whatever the call is called, so that a small file cannot ask for gigabytes of names.
std::string prefix_for(const NodeText& call, std::uint64_t ordinal) {
  std::string_view name = call.name.empty() ? call.op_type : call.name;
  if (name.size() > kMaxPrefixBytes) {
    std::size_t end = kMaxPrefixBytes;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;  // whole UTF-8
    name = name.substr(0, end);
  }
  return std::format("{}__{}/", name, ordinal);
}

Status check_call(const ImportContext& context, const NodeText& call,
                  const FunctionText& function) {
  if (function.expanding)
    return fail(ErrorCode::kInvalidGraph, "{}: function \"{}\" calls itself", call.describe(),
                function.name);
  if (context.call_depth >= kMaxCallDepth)
    return fail(ErrorCode::kResourceLimit, "{}: functions nested more than {} deep",
                call.describe(), kMaxCallDepth);
  if (call.inputs.size() > function.inputs.size() || call.outputs.size() > function.outputs.size())
    return fail(ErrorCode::kInvalidGraph,
                "{}: {} inputs and {} outputs, the function has {} and {}", call.describe(),
                call.inputs.size(), call.outputs.size(), function.inputs.size(),
                function.outputs.size());
  return {};
}

}  // namespace

Result<FunctionText> read_function_text(Message message) {
  FunctionText text;
  text.message = message;
  MessageReader reader(message, "function");
  while (const wire::Field* f = reader.next()) {
    switch (f->tag) {
      case wire::bytes(ff::kName): text.name = f->text(); break;
      case wire::bytes(ff::kDomain): text.domain = normalised_domain(f->text()); break;
      case wire::bytes(ff::kOverload): text.overload = f->text(); break;
      case wire::bytes(ff::kInput): text.inputs.push_back(f->text()); break;
      case wire::bytes(ff::kOutput): text.outputs.push_back(f->text()); break;
      case wire::bytes(ff::kAttribute): text.attributes.push_back(f->text()); break;
      case wire::bytes(ff::kNode): text.nodes.push_back(f->body); break;
      case wire::bytes(ff::kAttributeProto):
        text.defaults.push_back(CTXGEN_TRY(read_attribute_name(f->body)));
        break;
      case wire::bytes(ff::kOpsetImport):
        text.opsets.push_back(CTXGEN_TRY(read_opset_import(f->body)));
        break;
      default: break;
    }
  }
  CTXGEN_CHECK(reader.status());
  return text;
}

Status read_function(ImportContext& context, const FunctionText& text) {
  Function function{.name = std::string(text.name),
                    .domain = std::string(text.domain),
                    .overload = std::string(text.overload),
                    .inputs = copies(text.inputs),
                    .outputs = copies(text.outputs),
                    .attributes = copies(text.attributes),
                    .attribute_defaults = {},
                    .opset_imports = text.opsets,
                    .body = std::make_shared<Graph>(),
                    .source = context.range_of(text.message)};
  GraphBuild build{.graph = *function.body, .defined = {}};
  Scope scope(build, text.opsets);
  for (const AttributeText& attribute : text.defaults)
    if (auto read = CTXGEN_TRY(read_attribute(context, scope, attribute)))
      function.attribute_defaults.push_back(*std::move(read));
  for (const std::string_view name : text.inputs) {
    const ValueId id = CTXGEN_TRY(scope.define(name, "function input"));
    build.graph.value(id).is_input = true;
    build.graph.inputs.push_back(id);
  }
  for (const Message node : text.nodes) CTXGEN_CHECK(read_node(context, scope, node));
  for (const std::string_view name : text.outputs) {
    const auto id = scope.resolve(name);
    if (!id || !id->valid())
      return fail(ErrorCode::kInvalidGraph, "function output \"{}\" has no source", name);
    build.graph.value(*id).is_output = true;
    build.graph.outputs.push_back(*id);
  }
  context.model.functions.push_back(std::move(function));
  return {};
}

Status expand_call(ImportContext& context, Scope& scope, const NodeText& call,
                   FunctionText& function) {
  CTXGEN_CHECK(check_call(context, call, function));
  GraphBuild& build = scope.build();
  const FunctionFrame frame{.function = &function, .call = &call, .caller = &scope};
  Scope body(build, function.opsets);
  body.become_function_body(prefix_for(call, context.calls++), &frame, scope.depth());
  FunctionCall record;
  CTXGEN_CHECK(bind_inputs(context, scope, call, function, body, record));
  CTXGEN_CHECK(bind_outputs(context, scope, call, function, body, record));

  // A call inside another one belongs to the outer one: only that is in the file's graph.
  const bool outermost = !scope.renames() && build.call < 0;
  if (outermost) {
    record.source = context.range_of(call.message);
    build.call = build.graph.add_call(record);
  }
  function.expanding = true;
  ++context.call_depth;
  CTXGEN_CHECK(read_body(context, body, function));
  --context.call_depth;
  function.expanding = false;
  CTXGEN_CHECK(pass_through(context.model, body, call, function, record));
  if (outermost) build.call = -1;
  return {};
}

}  // namespace ctxgen
