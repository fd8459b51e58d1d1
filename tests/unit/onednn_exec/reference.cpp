#include "reference.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace ctxgen::onednn::test {
namespace {

struct Value {
  Dims dims;
  std::vector<double> data;
};

struct Op {
  const ProgramOp& op;
  [[nodiscard]] const ProgramParam* find(std::string_view name) const {
    for (const ProgramParam& param : op.params)
      if (param.name == name) return &param;
    return nullptr;
  }
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t fallback) const {
    const auto* param = find(name);
    return param == nullptr ? fallback : std::get<std::int64_t>(param->value);
  }
  [[nodiscard]] double real(std::string_view name, double fallback) const {
    const auto* param = find(name);
    return param == nullptr ? fallback : std::get<double>(param->value);
  }
  [[nodiscard]] std::string text(std::string_view name) const {
    const auto* param = find(name);
    return param == nullptr ? "" : std::get<ShortText>(param->value).str();
  }
  [[nodiscard]] std::vector<std::int64_t> list(std::string_view name, std::size_t count,
                                               std::int64_t fallback) const {
    const auto* param = find(name);
    if (param == nullptr) return std::vector<std::int64_t>(count, fallback);
    return std::get<SmallList<std::int64_t>>(param->value);
  }
};

std::size_t at(const Dims& dims, const std::vector<std::int64_t>& index) {
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) flat = flat * dims[i] + index[i];
  return static_cast<std::size_t>(flat);
}

/// Calls visit(index) for every index of dims, row-major.
template <class Visit>
void for_each(const Dims& dims, const Visit& visit) {
  if (element_count(dims) == 0) return;
  std::vector<std::int64_t> index(dims.size(), 0);
  for (std::int64_t n = element_count(dims); n > 0; --n) {
    visit(index);
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
}

double read_broadcast(const Value& value, const std::vector<std::int64_t>& index) {
  std::vector<std::int64_t> own(index.end() - static_cast<std::ptrdiff_t>(value.dims.size()),
                                index.end());
  for (std::size_t i = 0; i < own.size(); ++i)
    if (value.dims[i] == 1) own[i] = 0;
  return value.data[at(value.dims, own)];
}

double eltwise(std::string_view word, double x, double a, double b) {
  if (word == "relu") return x > 0 ? x : a * x;
  if (word == "clip") return std::min(std::max(x, a), b);
  if (word == "linear") return a * x + b;
  if (word == "sigmoid") return 1 / (1 + std::exp(-x));
  if (word == "tanh") return std::tanh(x);
  if (word == "elu") return x > 0 ? x : a * (std::exp(x) - 1);
  if (word == "exp") return std::exp(x);
  if (word == "log") return std::log(x);
  if (word == "sqrt") return std::sqrt(x);
  if (word == "abs") return std::fabs(x);
  if (word == "square") return x * x;
  if (word == "gelu_erf") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  if (word == "gelu_tanh")
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (word == "swish") return x / (1 + std::exp(-a * x));
  if (word == "hardswish") return x * std::min(std::max(a * x + b, 0.0), 1.0);
  if (word == "hardsigmoid") return std::min(std::max(a * x + b, 0.0), 1.0);
  if (word == "mish") return x * std::tanh(std::log1p(std::exp(x)));
  if (word == "soft_relu") return std::log1p(std::exp(a * x)) / a;
  if (word == "round") return std::nearbyint(x);
  if (word == "pow") return a * std::pow(x, b);
  ADD_FAILURE() << "no eltwise " << word;
  return 0;
}

double arithmetic(std::string_view word, double x, double y) {
  if (word == "add") return x + y;
  if (word == "sub") return x - y;
  if (word == "mul") return x * y;
  if (word == "div") return x / y;
  if (word == "max") return std::max(x, y);
  if (word == "min") return std::min(x, y);
  ADD_FAILURE() << "no binary " << word;
  return 0;
}

bool is_binary(std::string_view word) {
  for (const std::string_view known : {"add", "sub", "mul", "div", "max", "min"})
    if (known == word) return true;
  return false;
}

struct Taps {
  std::vector<std::int64_t> kernel, strides, dilations, begin, end;
};

Taps read_taps(const Op& op, const Dims& src, std::vector<std::int64_t> kernel) {
  const std::size_t k = kernel.size();
  Taps t{std::move(kernel), op.list("strides", k, 1), op.list("dilations", k, 1), {}, {}};
  const std::string auto_pad = op.text("auto_pad");
  const auto pads = op.list("pads", 2 * k, 0);
  for (std::size_t i = 0; i < k; ++i) {
    std::int64_t begin = pads[i], end = pads[k + i];
    if (auto_pad.starts_with("SAME")) {
      const std::int64_t out = (src[i + 2] + t.strides[i] - 1) / t.strides[i];
      const std::int64_t total = std::max<std::int64_t>(
          0, (out - 1) * t.strides[i] + (t.kernel[i] - 1) * t.dilations[i] + 1 - src[i + 2]);
      begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      end = total - begin;
    } else if (auto_pad == "VALID") {
      begin = end = 0;
    }
    t.begin.push_back(begin);
    t.end.push_back(end);
  }
  return t;
}

Value conv(const Op& op, const std::vector<const Value*>& in, const Dims& dims) {
  const Value& src = *in[0];
  const Value& weights = *in[1];
  const Taps t = read_taps(op, src.dims, {weights.dims.begin() + 2, weights.dims.end()});
  const std::int64_t per_group = dims[1] / op.integer("group", 1);
  Value out{dims, {}};
  const Dims inner(weights.dims.span().subspan(1));
  for_each(dims, [&](const std::vector<std::int64_t>& o) {
    double sum =
        in.size() > 2 && in[2] != nullptr ? in[2]->data[static_cast<std::size_t>(o[1])] : 0;
    for_each(inner, [&](const std::vector<std::int64_t>& w) {
      std::vector<std::int64_t> s{o[0], o[1] / per_group * inner[0] + w[0]};
      std::vector<std::int64_t> tap{o[1], w[0]};
      for (std::size_t i = 0; i < t.kernel.size(); ++i) {
        const std::int64_t p = o[i + 2] * t.strides[i] - t.begin[i] + w[i + 1] * t.dilations[i];
        if (p < 0 || p >= src.dims[i + 2]) return;
        s.push_back(p);
        tap.push_back(w[i + 1]);
      }
      sum += src.data[at(src.dims, s)] * weights.data[at(weights.dims, tap)];
    });
    out.data.push_back(sum);
  });
  return out;
}

Value pool(const Op& op, const Value& src, const Dims& dims, bool global) {
  const std::size_t k = src.dims.size() - 2;
  const Taps t = global ? Taps{{src.dims.begin() + 2, src.dims.end()},
                               std::vector<std::int64_t>(k, 1),
                               std::vector<std::int64_t>(k, 1),
                               std::vector<std::int64_t>(k, 0),
                               std::vector<std::int64_t>(k, 0)}
                        : read_taps(op, src.dims, op.list("kernel", k, 1));
  const std::string mode = op.text("mode");
  Dims kernel;
  for (const std::int64_t size : t.kernel) kernel.push_back(size);
  Value out{dims, {}};
  for_each(dims, [&](const std::vector<std::int64_t>& o) {
    double best = -std::numeric_limits<double>::infinity(), sum = 0, inside = 0, counted = 0;
    for_each(kernel, [&](const std::vector<std::int64_t>& w) {
      std::vector<std::int64_t> s{o[0], o[1]};
      bool in = true, counts = true;
      for (std::size_t i = 0; i < k; ++i) {
        const std::int64_t p = o[i + 2] * t.strides[i] - t.begin[i] + w[i] * t.dilations[i];
        in = in && p >= 0 && p < src.dims[i + 2];
        counts = counts && p < src.dims[i + 2] + t.end[i];
        s.push_back(p);
      }
      counted += counts;
      if (!in) return;
      inside += 1;
      const double x = src.data[at(src.dims, s)];
      best = std::max(best, x);
      sum += x;
    });
    out.data.push_back(mode == "max" ? best : sum / (mode == "avg_include" ? counted : inside));
  });
  return out;
}

Value matmul(const Op& op, const std::vector<const Value*>& in, const Dims& dims) {
  const bool ta = op.integer("trans_a", 0) != 0, tb = op.integer("trans_b", 0) != 0;
  const Value &a = *in[0], &b = *in[1];
  const std::int64_t inner = ta ? a.dims[a.dims.size() - 2] : a.dims.back();
  const auto element = [](const Value& v, std::vector<std::int64_t> index, bool swap) {
    if (swap) std::swap(index[index.size() - 1], index[index.size() - 2]);
    index.erase(index.begin(), index.end() - static_cast<std::ptrdiff_t>(v.dims.size()));
    for (std::size_t i = 0; i + 2 < v.dims.size(); ++i)
      if (v.dims[i] == 1) index[i] = 0;
    return v.data[at(v.dims, index)];
  };
  Value out{dims, {}};
  for_each(dims, [&](const std::vector<std::int64_t>& o) {
    double sum =
        in.size() > 2 && in[2] != nullptr ? in[2]->data[static_cast<std::size_t>(o.back())] : 0;
    for (std::int64_t i = 0; i < inner; ++i) {
      std::vector<std::int64_t> left = o, right = o;
      left[left.size() - 1] = i;
      right[right.size() - 2] = i;
      sum += element(a, left, ta) * element(b, right, tb);
    }
    out.data.push_back(sum);
  });
  return out;
}

std::size_t axis_of(const Op& op, std::int64_t fallback, std::size_t rank) {
  const std::int64_t axis = op.integer("axis", fallback);
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

Value softmax(const Op& op, const Value& src) {
  const std::size_t axis = axis_of(op, -1, src.dims.size());
  Value out{src.dims, {}};
  for_each(src.dims, [&](std::vector<std::int64_t> o) {
    const double x = src.data[at(src.dims, o)];
    double sum = 0;
    for (o[axis] = 0; o[axis] < src.dims[axis]; ++o[axis])
      sum += std::exp(src.data[at(src.dims, o)]);
    out.data.push_back(op.integer("log", 0) != 0 ? x - std::log(sum) : std::exp(x) / sum);
  });
  return out;
}

Value layer_norm(const Op& op, const std::vector<const Value*>& in) {
  const Value& src = *in[0];
  const std::size_t axis = axis_of(op, -1, src.dims.size());
  std::size_t n = 1;
  for (std::size_t i = axis; i < src.dims.size(); ++i) n *= static_cast<std::size_t>(src.dims[i]);
  Value out{src.dims, src.data};
  for (std::size_t row = 0; row < src.data.size(); row += n) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < n; ++i) mean += src.data[row + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      variance += std::pow(src.data[row + i] - mean, 2) / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      double& x = out.data[row + i];
      x = (x - mean) / std::sqrt(variance + op.real("epsilon", 1e-5));
      if (in.size() > 1 && in[1] != nullptr) x *= in[1]->data[i];
      if (in.size() > 2 && in[2] != nullptr) x += in[2]->data[i];
    }
  }
  return out;
}

Value lrn(const Op& op, const Value& src) {
  const std::int64_t size = op.integer("size", 1);
  Value out{src.dims, {}};
  for_each(src.dims, [&](std::vector<std::int64_t> o) {
    const double x = src.data[at(src.dims, o)];
    const std::int64_t c = o[1];
    double sum = 0;
    for (o[1] = std::max<std::int64_t>(0, c - (size - 1) / 2);
         o[1] <= std::min(src.dims[1] - 1, c + size / 2); ++o[1])
      sum += std::pow(src.data[at(src.dims, o)], 2);
    out.data.push_back(
        x / std::pow(op.real("bias", 1) + op.real("alpha", 1e-4) / static_cast<double>(size) * sum,
                     op.real("beta", 0.75)));
  });
  return out;
}

/// Ops that only move elements: `source` maps an output index to an input index.
template <class Source>
Value gather(const Value& src, const Dims& dims, const Source& source) {
  Value out{dims, {}};
  for_each(dims, [&](const std::vector<std::int64_t>& o) {
    out.data.push_back(src.data[at(src.dims, source(o))]);
  });
  return out;
}

Value slice(const Op& op, const Value& src, const Dims& dims) {
  const auto starts = op.list("starts", 0, 0);
  const auto axes = op.list("axes", 0, 0);
  const auto steps = op.list("steps", starts.size(), 1);
  return gather(src, dims, [&](std::vector<std::int64_t> o) {
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const std::size_t axis = static_cast<std::size_t>(
          axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(src.dims.size()) : axes[i]);
      const std::int64_t n = src.dims[axis];
      std::int64_t start = starts[i] < 0 ? starts[i] + n : starts[i];
      start = steps[i] > 0 ? std::clamp<std::int64_t>(start, 0, n)
                           : std::clamp<std::int64_t>(start, 0, n - 1);
      o[axis] = start + o[axis] * steps[i];
    }
    return o;
  });
}

/// ONNX Gather of constant indices.
Value take(const Op& op, const Value& src, const Dims& dims) {
  const std::size_t axis = axis_of(op, 0, src.dims.size());
  const auto indices = op.list("indices", 0, 0), index_dims = op.list("index_dims", 0, 0);
  return gather(src, dims, [&](const std::vector<std::int64_t>& o) {
    std::vector<std::int64_t> s(o.begin(), o.begin() + static_cast<std::ptrdiff_t>(axis));
    std::int64_t at = 0;
    for (std::size_t i = 0; i < index_dims.size(); ++i) at = at * index_dims[i] + o[axis + i];
    const std::int64_t index = indices[static_cast<std::size_t>(at)];
    s.push_back(index < 0 ? index + src.dims[axis] : index);
    s.insert(s.end(), o.begin() + static_cast<std::ptrdiff_t>(axis + index_dims.size()), o.end());
    return s;
  });
}

Value concat(const Op& op, const std::vector<const Value*>& in, const Dims& dims) {
  const std::size_t axis = axis_of(op, 0, dims.size());
  Value out{dims, {}};
  for_each(dims, [&](std::vector<std::int64_t> o) {
    for (const Value* part : in) {
      if (o[axis] < part->dims[axis]) {
        out.data.push_back(part->data[at(part->dims, o)]);
        return;
      }
      o[axis] -= part->dims[axis];
    }
  });
  return out;
}

Value pointwise(const Op& op, const std::vector<const Value*>& in, const Dims& dims) {
  Value out{dims, {}};
  for_each(dims, [&](const std::vector<std::int64_t>& o) {
    const double x = read_broadcast(*in[0], o);
    if (op.op.kind == "eltwise")
      out.data.push_back(eltwise(op.text("alg"), x, op.real("alpha", 0), op.real("beta", 0)));
    else if (op.op.kind == "binary")
      out.data.push_back(arithmetic(op.text("alg"), x, read_broadcast(*in[1], o)));
    else
      out.data.push_back(x * in[1]->data[static_cast<std::size_t>(o[1])] +
                         in[2]->data[static_cast<std::size_t>(o[1])]);
  });
  return out;
}

Value evaluate(const Op& op, const std::vector<const Value*>& in, const Dims& dims) {
  const std::string_view kind = op.op.kind;
  if (kind == "conv" || kind == "computed_conv") return conv(op, in, dims);
  if (kind == "matmul") return matmul(op, in, dims);
  if (kind == "pool") return pool(op, *in[0], dims, false);
  if (kind == "global_pool") return pool(op, *in[0], dims, true);
  if (kind == "eltwise" || kind == "binary" || kind == "scale_shift")
    return pointwise(op, in, dims);
  if (kind == "softmax") return softmax(op, *in[0]);
  if (kind == "layer_norm") return layer_norm(op, in);
  if (kind == "lrn") return lrn(op, *in[0]);
  if (kind == "concat") return concat(op, in, dims);
  if (kind == "slice") return slice(op, *in[0], dims);
  if (kind == "gather") return take(op, *in[0], dims);
  if (kind == "transpose") {
    const auto perm = op.list("perm", 0, 0);
    return gather(*in[0], dims, [&](const std::vector<std::int64_t>& o) {
      std::vector<std::int64_t> s(o.size());
      for (std::size_t i = 0; i < o.size(); ++i) s[static_cast<std::size_t>(perm[i])] = o[i];
      return s;
    });
  }
  return {dims, in[0]->data};  // the kinds that keep the bytes
}

}  // namespace

std::vector<std::vector<double>> reference(Maker& maker) {
  const Program& program = maker.program();
  const std::vector<Dims> dims = infer_value_dims(program, maker.input_dims()).value();
  std::vector<Value> values(program.values.size());
  const auto load = [](const Tensor& tensor) {
    const auto elements = tensor.elements<float>();
    return Value{tensor.dims(), {elements.begin(), elements.end()}};
  };
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    values[program.inputs[i]] = load(maker.inputs()[i]);
  std::vector<Value> weights;
  for (const Tensor& tensor : maker.weights()) weights.push_back(load(tensor));
  const auto find = [&](const Operand& operand) -> const Value* {
    if (operand.kind == Operand::Kind::kNone) return nullptr;
    return operand.kind == Operand::Kind::kValue ? &values[operand.index] : &weights[operand.index];
  };
  for (const ProgramOp& program_op : program.ops) {
    const Op op{program_op};
    std::vector<const Value*> in;
    for (const Operand& operand : program_op.inputs) in.push_back(find(operand));
    if (program_op.kind == "split") {
      const std::size_t axis = axis_of(op, 0, in[0]->dims.size());
      std::int64_t start = 0;
      for (const std::uint32_t output : program_op.outputs) {
        values[output] = gather(*in[0], dims[output], [&](std::vector<std::int64_t> o) {
          o[axis] += start;
          return o;
        });
        start += dims[output][axis];
      }
      continue;
    }
    Value out = evaluate(op, in, dims[program_op.outputs[0]]);
    for (const PostOp& post : program_op.post_ops) {
      std::size_t n = 0;
      const Value before = out;
      for_each(out.dims, [&](const std::vector<std::int64_t>& o) {
        out.data[n] =
            is_binary(post.kind)
                ? arithmetic(post.kind, before.data[n], read_broadcast(*find(post.operand), o))
                : eltwise(post.kind, before.data[n], post.alpha, post.beta);
        ++n;
      });
    }
    values[program_op.outputs[0]] = std::move(out);
  }
  std::vector<std::vector<double>> outputs;
  for (const std::uint32_t output : program.outputs) outputs.push_back(values[output].data);
  return outputs;
}

void expect_matches_reference(Maker& maker, double tolerance) {
  const auto actual = compile_and_run(maker);
  ASSERT_TRUE(actual) << actual.error().message;
  const auto expected = reference(maker);
  ASSERT_EQ(actual->size(), expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    ASSERT_EQ((*actual)[k].size(), expected[k].size());
    for (std::size_t i = 0; i < expected[k].size(); ++i)
      ASSERT_LE(std::fabs((*actual)[k][i] - expected[k][i]),
                tolerance * (1 + std::fabs(expected[k][i])))
          << "output " << k << " element " << i << ": " << (*actual)[k][i] << " expected "
          << expected[k][i];
  }
}

}  // namespace ctxgen::onednn::test
