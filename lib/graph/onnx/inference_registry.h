#pragma once

#include <map>
#include <string>

#include <onnx/defs/schema.h>

namespace ctxgen {

/// The operators' schemas as shape inference uses them: with the shape functions of later versions
/// where those mean the same and follow sizes further, and with functions that look at the types of
/// their inputs before they trust them. onnx 1.20 has several that read beyond the dims of an input,
/// divide by what a model says, or make a list as long as a tensor (found by random models,
/// tests/unit/onnx/hostile_nodes_test.cpp). What only depends on attributes is in
/// inference_guard.h.
///
/// Threads   one registry serves one thread.
/// Lifetime  schemas live as long as the registry.
class InferenceRegistry final : public onnx::ISchemaRegistry {
 public:
  const onnx::OpSchema* GetSchema(const std::string& op_type, int version,
                                  const std::string& domain) const override;

 private:
  mutable std::map<const onnx::OpSchema*, onnx::OpSchema> guarded_;
};

}  // namespace ctxgen
