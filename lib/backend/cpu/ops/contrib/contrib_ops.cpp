#include <algorithm>
#include <cmath>
#include <numbers>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/forwarding_context.h"
#include "kernel/widen.h"
#include "tensors/broadcast.h"
#include "tensors/map_elements.h"

// com.microsoft: fused operators and normalisations that ONNX Runtime's optimiser writes.

namespace ctxgen::cpu {
namespace {

// ---- activations ----

using Function = std::function<double(double)>;

Result<Function> activation_of(std::string_view name, std::span<const float> p) {
  const auto param = [p](std::size_t i, double otherwise) {
    return i < p.size() ? p[i] : otherwise;
  };
  if (name == "Relu") return Function([](double x) { return x < 0 ? 0.0 : x; });
  if (name == "Tanh") return Function([](double x) { return std::tanh(x); });
  if (name == "Sigmoid") return Function([](double x) { return 1 / (1 + std::exp(-x)); });
  const double a = param(0, name == "LeakyRelu" ? 0.01 : name == "HardSigmoid" ? 0.2 : 1.0);
  const double b = param(1, name == "HardSigmoid" ? 0.5 : 0.0);
  if (name == "LeakyRelu") return Function([a](double x) { return x < 0 ? a * x : x; });
  if (name == "Elu") return Function([a](double x) { return x < 0 ? a * std::expm1(x) : x; });
  if (name == "HardSigmoid")
    return Function([a, b](double x) { return std::clamp(a * x + b, 0.0, 1.0); });
  if (name == "Clip" && p.size() == 2)
    return Function([a, b](double x) { return std::min(std::max(x, a), b); });
  return fail(ErrorCode::kUnsupported, "activation \"{}\" with {} parameters", name, p.size());
}

/// Shows the first `inputs` inputs of another context and remembers output 0.
class FusedContext final : public ForwardingContext {
 public:
  FusedContext(KernelContext& inner, std::size_t inputs)
      : ForwardingContext(inner), inputs_(inputs) {}
  [[nodiscard]] std::size_t input_count() const override {
    return std::min(inputs_, inner().input_count());
  }
  [[nodiscard]] Result<Tensor*> make_output(std::size_t index, DataType type,
                                            const Dims& dims) override {
    Tensor* made = CTXGEN_TRY(inner().make_output(index, type, dims));
    output = made;
    return made;
  }
  Tensor* output = nullptr;  // nothing else sees it yet: it may be changed in place

 private:
  std::size_t inputs_;
};

Status finish_fused(Tensor& output, const Tensor* addend, const Function& f) {
  if (addend != nullptr) {
    CTXGEN_CHECK(same_type(output, *addend));
    CTXGEN_CHECK(expect_dims(*addend, "Z", output.dims()));
  }
  return dispatch(RealTypes{}, output.type(), [&]<class T>() -> Status {
    T* to = mutable_data_of<T>(output);
    const T* z = addend == nullptr ? nullptr : data_of<T>(*addend);
    const std::int64_t count = output.element_count();
    for (std::int64_t i = 0; i < count; ++i) {
      const double x =
          static_cast<double>(load(to[i])) + (z == nullptr ? 0.0 : static_cast<double>(load(z[i])));
      to[i] = store<T>(f ? f(x) : x);
    }
    return {};
  });
}

// The ONNX operator of the same attributes, then Z, then the activation.
KernelResult fused(const Node& node, std::string_view base, std::int64_t since, Function f) {
  const OpRow* row = find_op(kOnnx, base, since);
  CTXGEN_ASSERT(row != nullptr);
  auto made = CTXGEN_TRY(row->make(node));
  return kernel([inner = std::shared_ptr<const Kernel>(std::move(made)),
                 f = std::move(f)](KernelContext& context) -> Status {
    FusedContext fused_context(context, 3);
    CTXGEN_CHECK(inner->run(fused_context));
    const Tensor* addend = optional_input(context, 3);
    if (addend == nullptr && !f) return {};
    return finish_fused(*fused_context.output, addend, f);
  });
}

KernelResult make_fused_conv(const Node& node) {
  const std::string name(node.string_or("activation", ""));
  Function f;
  if (!name.empty())
    f = CTXGEN_TRY(activation_of(name, floats_or_empty(node, "activation_params")));
  return fused(node, "Conv", 22, std::move(f));
}

KernelResult make_fused_gemm(const Node& node) {
  const std::string name(node.string_or("activation", ""));
  ScratchVector<float> params;
  if (node.attribute("activation_alpha") != nullptr) {
    params.push_back(node.float_or("activation_alpha", 0));
    if (node.attribute("activation_beta") != nullptr)
      params.push_back(node.float_or("activation_beta", 0));
  }
  Function f;
  if (!name.empty()) f = CTXGEN_TRY(activation_of(name, params));
  return fused(node, "Gemm", 13, std::move(f));
}

// ---- GELU ----

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }
double fast_gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

template <double (*kFunction)(double)>
KernelResult make_contrib_gelu(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const Tensor* bias = optional_input(context, 1);
    if (bias == nullptr)
      return map_elements<RealTypes>(context, [](auto x) { return kFunction(x); });
    CTXGEN_CHECK(same_type(*input, *bias));
    const auto plan = CTXGEN_TRY(plan_broadcast({&input->dims(), &bias->dims()}));
    CTXGEN_CHECK(expect_dims(*input, "input", plan.dims));
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), plan.dims));
    return dispatch(RealTypes{}, input->type(), [&]<class T>() -> Status {
      for_each_row(plan, [&](const auto& offset, std::int64_t out) {
        combine_row(
            data_of<T>(*input) + offset[0], plan.row_stride(0), data_of<T>(*bias) + offset[1],
            plan.row_stride(1), mutable_data_of<T>(*output) + out, plan.row_length(),
            [](T x, T b) { return store<T>(kFunction(static_cast<double>(load(x) + load(b)))); });
      });
      return {};
    });
  });
}

KernelResult make_quick_gelu(const Node& node) {
  const double alpha = node.float_or("alpha", 1.702f);
  return map_kernel<RealTypes>([alpha](auto x) { return x / (1 + std::exp(-alpha * x)); });
}

// ---- SkipLayerNormalization, EmbedLayerNormalization ----

Status expect_vector(const Tensor* tensor, std::string_view what, std::int64_t size) {
  if (tensor == nullptr) return {};
  if (tensor->type() != DataType::kFloat || tensor->element_count() != size)
    return fail(ErrorCode::kInvalidGraph, "{} is {} {}, expected {} floats", what,
                name_of(tensor->type()), to_string(tensor->dims()), size);
  return {};
}

/// One line, normalised and scaled. Without a mean (RMS) it is only divided.
struct LineNorm {
  const float* gamma = nullptr;
  const float* beta = nullptr;
  double epsilon = 0;
  bool rms = false;

  std::pair<double, double> write(std::span<const float> line, float* to) const {
    const auto count = static_cast<double>(line.size());
    double mean = 0;
    if (!rms) {
      for (double x : line) mean += x;
      mean /= count;
    }
    double squares = 0;
    for (double x : line) squares += (x - mean) * (x - mean);
    const double inverse = 1 / std::sqrt(squares / count + epsilon);
    for (std::size_t i = 0; i < line.size(); ++i)
      to[i] = static_cast<float>((line[i] - mean) * inverse * (gamma == nullptr ? 1.0f : gamma[i]) +
                                 (beta == nullptr ? 0.0f : beta[i]));
    return {mean, inverse};
  }
};

struct SkipParams {
  double epsilon = 0;
  bool rms = false;
};

struct SkipOutputs {
  Tensor *normal = nullptr, *mean = nullptr, *inverse = nullptr, *sum = nullptr;
};

Result<SkipOutputs> skip_outputs(KernelContext& context, const Dims& dims) {
  SkipOutputs out;
  Dims stats = dims;
  stats[stats.size() - 1] = 1;
  out.normal = CTXGEN_TRY(context.make_output(0, DataType::kFloat, dims));
  if (context.output_wanted(1))
    out.mean = CTXGEN_TRY(context.make_output(1, DataType::kFloat, stats));
  if (context.output_wanted(2))
    out.inverse = CTXGEN_TRY(context.make_output(2, DataType::kFloat, stats));
  if (context.output_wanted(3))
    out.sum = CTXGEN_TRY(context.make_output(3, DataType::kFloat, dims));
  return out;
}

// Inputs: data, skip, gamma, then beta (not for RMS), then bias.
Status run_skip_norm(KernelContext& context, const SkipParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0, DataType::kFloat));
  const Tensor* skip = CTXGEN_TRY(required(context, 1, DataType::kFloat));
  const Tensor* gamma = CTXGEN_TRY(required(context, 2));
  const Tensor* beta = params.rms ? nullptr : optional_input(context, 3);
  const Tensor* bias = optional_input(context, params.rms ? 3 : 4);
  CTXGEN_CHECK(expect_rank(*input, "input", 2, 3));
  const std::int64_t width = input->dims().back();
  CTXGEN_CHECK(expect_vector(gamma, "gamma", width));
  CTXGEN_CHECK(expect_vector(beta, "beta", width));
  CTXGEN_CHECK(expect_vector(bias, "bias", width));
  // The skip may leave out the batch: it repeats.
  const auto joined = CTXGEN_TRY(broadcast_dims(input->dims(), skip->dims()));
  CTXGEN_CHECK(expect_dims(*input, "input", joined));
  const std::int64_t skip_count = skip->element_count();
  if (skip_count == 0 || input->element_count() % skip_count != 0 || skip->dims().empty() ||
      skip->dims().back() != width ||
      (skip->rank() > 1 && skip->dims()[skip->rank() - 2] != input->dims()[input->rank() - 2]))
    return fail(ErrorCode::kInvalidGraph, "skip {} does not fit {}", to_string(skip->dims()),
                to_string(input->dims()));
  const SkipOutputs out = CTXGEN_TRY(skip_outputs(context, input->dims()));
  const LineNorm norm{.gamma = data_of<float>(*gamma),
                      .beta = beta == nullptr ? nullptr : data_of<float>(*beta),
                      .epsilon = params.epsilon,
                      .rms = params.rms};
  ScratchVector<float> line(static_cast<std::size_t>(width));
  for (std::int64_t r = 0; r < input->element_count() / std::max<std::int64_t>(width, 1); ++r) {
    for (std::int64_t i = 0; i < width; ++i)
      line[static_cast<std::size_t>(i)] = data_of<float>(*input)[r * width + i] +
                                          data_of<float>(*skip)[(r * width + i) % skip_count] +
                                          (bias == nullptr ? 0.0f : data_of<float>(*bias)[i]);
    const auto [mean, inverse] = norm.write(line, mutable_data_of<float>(*out.normal) + r * width);
    if (out.mean != nullptr) mutable_data_of<float>(*out.mean)[r] = static_cast<float>(mean);
    if (out.inverse != nullptr)
      mutable_data_of<float>(*out.inverse)[r] = static_cast<float>(inverse);
    if (out.sum != nullptr) std::ranges::copy(line, mutable_data_of<float>(*out.sum) + r * width);
  }
  return {};
}

template <bool kRms>
KernelResult make_skip_norm(const Node& node) {
  const SkipParams params{.epsilon = node.float_or("epsilon", 1e-12f), .rms = kRms};
  return widened_kernel(
      [params](KernelContext& context) { return run_skip_norm(context, params); });
}

// The row of an embedding table. Errors: INVALID_GRAPH.
Result<const float*> embedding_row(const Tensor& table, std::int64_t index) {
  if (index < 0 || index >= table.dims()[0])
    return fail(ErrorCode::kInvalidGraph, "id {} is outside of {}", index, to_string(table.dims()));
  return data_of<float>(table) + index * table.dims()[1];
}

struct EmbedInputs {
  const Tensor *ids, *segments, *words, *positions, *segment_table, *gamma, *beta, *mask,
      *position_ids;
  std::int64_t width;
};

Result<EmbedInputs> embed_inputs(const KernelContext& context) {
  EmbedInputs in{};
  in.ids = CTXGEN_TRY(required(context, 0, DataType::kInt32));
  in.segments = optional_input(context, 1);
  in.words = CTXGEN_TRY(required(context, 2, DataType::kFloat));
  in.positions = CTXGEN_TRY(required(context, 3, DataType::kFloat));
  in.segment_table = optional_input(context, 4);
  in.gamma = CTXGEN_TRY(required(context, 5));
  in.beta = CTXGEN_TRY(required(context, 6));
  in.mask = optional_input(context, 7);
  in.position_ids = optional_input(context, 8);
  CTXGEN_CHECK(expect_rank(*in.ids, "input_ids", 2, 2));
  CTXGEN_CHECK(expect_rank(*in.words, "word_embedding", 2, 2));
  in.width = in.words->dims()[1];
  for (const Tensor* table : {in.words, in.positions, in.segment_table})
    if (table != nullptr &&
        (table->type() != DataType::kFloat || table->rank() != 2 || table->dims()[1] != in.width))
      return fail(ErrorCode::kInvalidGraph, "an embedding is {} {}", name_of(table->type()),
                  to_string(table->dims()));
  CTXGEN_CHECK(expect_vector(in.gamma, "gamma", in.width));
  CTXGEN_CHECK(expect_vector(in.beta, "beta", in.width));
  const auto check_ids = [](const Tensor* ids, const Dims& dims) -> Status {
    if (ids == nullptr) return {};
    if (ids->type() != DataType::kInt32)
      return fail(ErrorCode::kInvalidGraph, "an input of ids is {}", name_of(ids->type()));
    return expect_dims(*ids, "ids", dims);
  };
  const Dims dims = in.ids->dims(), one_row{1, dims[1]};
  CTXGEN_CHECK(check_ids(in.segments, dims));
  CTXGEN_CHECK(check_ids(in.mask, dims));
  const bool shared = in.position_ids != nullptr && in.position_ids->dims() == one_row;
  CTXGEN_CHECK(check_ids(in.position_ids, shared ? one_row : dims));
  if ((in.segments == nullptr) != (in.segment_table == nullptr))
    return fail(ErrorCode::kInvalidGraph, "segment ids without segment embedding, or the reverse");
  return in;
}

Status sum_embeddings(const EmbedInputs& in, std::int64_t r, std::span<float> line) {
  const std::int64_t sequence = in.ids->dims()[1];
  std::int64_t position = r % sequence;
  if (in.position_ids != nullptr)
    position = data_of<std::int32_t>(*in.position_ids)[r % in.position_ids->element_count()];
  const float* word = CTXGEN_TRY(embedding_row(*in.words, data_of<std::int32_t>(*in.ids)[r]));
  const float* place = CTXGEN_TRY(embedding_row(*in.positions, position));
  const float* segment = nullptr;
  if (in.segments != nullptr)
    segment = CTXGEN_TRY(embedding_row(*in.segment_table, data_of<std::int32_t>(*in.segments)[r]));
  for (std::size_t i = 0; i < line.size(); ++i)
    line[i] = word[i] + place[i] + (segment == nullptr ? 0.0f : segment[i]);
  return {};
}

// Output 1: how many ones a row of the mask has; 0 without a mask.
Status put_mask_index(KernelContext& context, const EmbedInputs& in) {
  if (!context.output_wanted(1)) return {};
  const std::int64_t sequence = in.ids->dims()[1];
  Tensor* output = CTXGEN_TRY(context.make_output(1, DataType::kInt32, {in.ids->dims()[0]}));
  std::int64_t b = 0;
  for (std::int32_t& to : output->mutable_elements<std::int32_t>()) {
    to = 0;
    if (in.mask != nullptr) {
      const std::int32_t* row = data_of<std::int32_t>(*in.mask) + b * sequence;
      to = static_cast<std::int32_t>(std::count(row, row + sequence, 1));
    }
    ++b;
  }
  return {};
}

Status run_embed_norm(KernelContext& context, double epsilon) {
  const EmbedInputs in = CTXGEN_TRY(embed_inputs(context));
  const Dims dims{in.ids->dims()[0], in.ids->dims()[1], in.width};
  Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, dims));
  Tensor* sum = nullptr;
  if (context.output_wanted(2)) sum = CTXGEN_TRY(context.make_output(2, DataType::kFloat, dims));
  const LineNorm norm{.gamma = data_of<float>(*in.gamma),
                      .beta = data_of<float>(*in.beta),
                      .epsilon = epsilon,
                      .rms = false};
  ScratchVector<float> line(static_cast<std::size_t>(in.width));
  for (std::int64_t r = 0; r < in.ids->element_count(); ++r) {
    CTXGEN_CHECK(sum_embeddings(in, r, line));
    norm.write(line, mutable_data_of<float>(*output) + r * in.width);
    if (sum != nullptr) std::ranges::copy(line, mutable_data_of<float>(*sum) + r * in.width);
  }
  return put_mask_index(context, in);
}

KernelResult make_embed_norm(const Node& node) {
  return widened_kernel([epsilon = static_cast<double>(node.float_or("epsilon", 1e-12f))](
                            KernelContext& context) { return run_embed_norm(context, epsilon); },
                        2);
}

constexpr std::string_view kFloats = "float, double, float16, bfloat16";
constexpr std::string_view kFloat = "float, float16, bfloat16";

constexpr OpRow kContribRows[] = {
    {kMicrosoft, "BiasGelu", 1, 1, make_contrib_gelu<gelu>, kFloats},
    {kMicrosoft, "EmbedLayerNormalization", 1, 1, make_embed_norm, kFloat},
    {kMicrosoft, "FastGelu", 1, 1, make_contrib_gelu<fast_gelu>, kFloats},
    {kMicrosoft, "FusedConv", 1, 1, make_fused_conv, "floats; known activations"},
    {kMicrosoft, "FusedGemm", 1, 1, make_fused_gemm, "floats; known activations"},
    {kMicrosoft, "Gelu", 1, 1, make_contrib_gelu<gelu>, kFloats},
    {kMicrosoft, "QuickGelu", 1, 1, make_quick_gelu, kFloats},
    {kMicrosoft, "SkipLayerNormalization", 1, 1, make_skip_norm<false>, kFloat},
    {kMicrosoft, "SkipSimplifiedLayerNormalization", 1, 1, make_skip_norm<true>, kFloat},
};

}  // namespace

constinit const std::span<const OpRow> kContribOps = kContribRows;

}  // namespace ctxgen::cpu
