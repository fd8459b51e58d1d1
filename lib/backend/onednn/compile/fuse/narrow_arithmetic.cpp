#include <algorithm>
#include <array>
#include <ranges>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/kind_traits.h"
#include "ctxgen/onednn/op_kinds.h"

#include "editor.h"
#include "fuse.h"
#include "narrow.h"

// Products and convolutions multiply bf16 or f16, where the user asked for it (dnnl:precision, dnnl:fpmath):
// it is the type of their operands in the program. Values between them are of that type, too, for
// dnnl:precision; what reads or writes f32 alone (softmax, norms, reductions, outputs) gets conversions.
namespace ctxgen::onednn {

namespace {

template <std::size_t kCount>
bool is_one_of(std::string_view word, const std::array<std::string_view, kCount>& words) {
  return std::ranges::find(words, word) != words.end();
}

/// Functions that a pass over the result computes: it narrows as well.
bool runs_apart(const PostOp& post) {
  static constexpr std::array<std::string_view, 8> kWords{"erf", "exp",     "gelu_erf", "gelu_tanh",
                                                          "log", "sigmoid", "swish",    "tanh"};
  return is_one_of(post.kind, kWords);
}

/// Functions whose results spread small differences over many units.
bool is_sensitive(const PostOp& post) {
  static constexpr std::array<std::string_view, 3> kWords{"exp", "log", "power"};
  return is_one_of(post.kind, kWords);
}

/// What an op may do with narrow values.
enum class Role : std::uint8_t {
  kOther,      // f32 in, f32 out
  kProduct,    // multiplies narrow numbers; the result is of either type
  kUniform,    // moves or pools: sources and results of one type
  kPointwise,  // each source and the result of either type
};

class Narrowing {
 public:
  Narrowing(Lowered& lowered, const NarrowArithmetic& arithmetic)
      : lowered_(lowered),
        type_(arithmetic.type),
        values_(arithmetic.values),
        weights_(lowered),
        roles_(lowered.program.ops.size(), Role::kOther),
        narrow_(lowered.program.values.size(), false) {}

  Status run() {
    CTXGEN_CHECK(find_products());
    if (std::ranges::find(roles_, Role::kProduct) == roles_.end()) return {};
    if (values_) {
      find_other_roles();
      find_values();
    }
    return rewrite();
  }

 private:
  [[nodiscard]] Program& program() const { return lowered_.program; }
  [[nodiscard]] bool is_narrow(const Operand& operand) const {
    return operand.kind == Operand::Kind::kValue && narrow_[operand.index];
  }

  /// Whether an op has a fast kernel with these types of its values.
  [[nodiscard]] bool runs(ProgramOp op, DataType sources, DataType results) const {
    Program trial;
    std::unordered_map<std::uint32_t, std::uint32_t> values, weights;
    const auto value = [&](std::uint32_t index, DataType type) {
      const auto [at, added] =
          values.try_emplace(index, static_cast<std::uint32_t>(trial.values.size()));
      if (added) trial.values.push_back(program().values[index]);
      if (added && trial.values.back().type == DataType::kFloat) trial.values.back().type = type;
      return at->second;
    };
    for_each_operand(op, [&](Operand& operand) {
      if (operand.kind == Operand::Kind::kValue) operand.index = value(operand.index, sources);
      if (operand.kind != Operand::Kind::kWeight) return;
      const auto [at, added] =
          weights.try_emplace(operand.index, static_cast<std::uint32_t>(trial.weights.size()));
      if (added) trial.weights.push_back(program().weights[operand.index]);
      operand.index = at->second;
    });
    for (std::uint32_t& output : op.outputs) output = value(output, results);
    trial.symbols = program().symbols;
    return runs_fast(trial, op);
  }

  [[nodiscard]] bool wants(const ProgramOp& op) const {
    const auto& wanted = options_of(lowered_, op).arithmetic;
    return wanted && wanted->type == type_ && wanted->values == values_;
  }

  Status find_products() {
    for (std::size_t i = 0; i < roles_.size(); ++i) {
      ProgramOp op = program().ops[i];
      if (narrow_operand(lowered_, op) != std::size_t{1} || !wants(op)) continue;
      op.inputs[1] = CTXGEN_TRY(weights_.narrow(op.inputs[1], type_));
      if (program().weights[op.inputs[1].index].type != type_) continue;
      op.post_ops.clear();
      if (runs(op, type_, DataType::kFloat)) roles_[i] = Role::kProduct;
    }
    return {};
  }

  void find_other_roles() {
    for (std::size_t i = 0; i < roles_.size(); ++i)
      if (roles_[i] == Role::kOther) roles_[i] = role_of(program().ops[i]);
  }

  [[nodiscard]] Role role_of(const ProgramOp& op) const {
    const auto is_f32 = [&](std::uint32_t v) {
      return program().values[v].type == DataType::kFloat;
    };
    if (!std::ranges::all_of(op.outputs, is_f32)) return Role::kOther;
    if (op.kind == kind::kScaleShift) return Role::kPointwise;
    if (const auto point = as_point(program(), op)) {
      const bool takes = std::ranges::none_of(point->post_ops, is_sensitive) &&
                         runs(*point, type_, type_) && op.kind != kind::kPoint;
      return takes ? Role::kPointwise : Role::kOther;
    }
    const KindTraits& traits = traits_of(op);
    const bool moves = (traits.exact || traits.pools) && op.post_ops.empty() &&
                       op.inputs[0].kind == Operand::Kind::kValue && !rounds_sizes_up(op);
    return moves && runs(op, type_, type_) ? Role::kUniform : Role::kOther;
  }

  /// Whether the kernel of a pool depends on dims that are not known: the others have none.
  [[nodiscard]] bool rounds_sizes_up(const ProgramOp& op) const {
    if (op.kind != kind::kPool || !params_of<PoolParams>(op).ceil_mode) return false;
    const auto& dims = program().values[op.inputs[0].index].dims;
    return std::ranges::any_of(dims, [](const ProgramDim& dim) { return dim.value < 0; });
  }

  /// Values between products become narrow where all that touches them takes them so.
  void find_values() {
    std::vector<bool> may(narrow_.size(), false);
    for (std::size_t i = 0; i < roles_.size(); ++i)
      for (const std::uint32_t output : program().ops[i].outputs)
        may[output] = roles_[i] != Role::kOther;
    for (const std::uint32_t output : program().outputs) may[output] = false;
    for (std::size_t i = 0; i < roles_.size(); ++i) forbid(program().ops[i], roles_[i], may);
    narrow_ = std::move(may);
    for (bool changed = true; changed;) {
      const std::vector<bool> before = narrow_;
      drop_unneeded();
      for (std::size_t i = 0; i < roles_.size(); ++i)
        if (roles_[i] == Role::kUniform) keep_uniform(program().ops[i]);
      changed = narrow_ != before;
    }
  }

  static void forbid(const ProgramOp& op, Role role, std::vector<bool>& may) {
    const bool reads = role == Role::kUniform || role == Role::kPointwise;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i].kind == Operand::Kind::kValue &&
          !(i == 0 ? role != Role::kOther : reads && op.kind != kind::kScaleShift))
        may[op.inputs[i].index] = false;
    const bool operands = role != Role::kOther && op.kind != kind::kScaleShift;
    for (const PostOp& post : op.post_ops)
      if (post.operand.kind == Operand::Kind::kValue && !operands) may[post.operand.index] = false;
  }

  /// What no product reads in the end stays f32.
  void drop_unneeded() {
    std::vector<bool> needed(narrow_.size(), false);
    for (std::size_t i = roles_.size(); i-- > 0;) {
      const ProgramOp& op = program().ops[i];
      const bool passes =
          roles_[i] == Role::kProduct ||
          (roles_[i] != Role::kOther && std::ranges::any_of(op.outputs, [&](std::uint32_t v) {
             return narrow_[v] && needed[v];
           }));
      if (!passes) continue;
      for_each_operand(op, [&](const Operand& operand) {
        if (operand.kind == Operand::Kind::kValue) needed[operand.index] = true;
      });
    }
    for (std::size_t v = 0; v < narrow_.size(); ++v) narrow_[v] = narrow_[v] && needed[v];
  }

  void keep_uniform(const ProgramOp& op) {
    bool all = true;
    for (const Operand& operand : op.inputs)
      if (operand.kind != Operand::Kind::kNone) all = all && is_narrow(operand);
    for (const std::uint32_t output : op.outputs) all = all && narrow_[output];
    if (all) return;
    for (const Operand& operand : op.inputs)
      if (operand.kind == Operand::Kind::kValue) narrow_[operand.index] = false;
    for (const std::uint32_t output : op.outputs) narrow_[output] = false;
  }

  Status rewrite() {
    const std::size_t values = narrow_.size();
    for (std::size_t v = 0; v < values; ++v)
      if (narrow_[v]) program().values[v].type = type_;
    std::vector<ProgramOp> before;
    std::swap(before, program().ops);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (roles_[i] == Role::kProduct)
        CTXGEN_CHECK(add_product(std::move(before[i])));
      else if (roles_[i] == Role::kPointwise)
        add_pointwise(std::move(before[i]));
      else
        program().ops.push_back(std::move(before[i]));
    }
    return {};
  }

  Status add_product(ProgramOp op) {
    op.inputs[0] = narrowed(op.inputs[0], op.name);
    op.inputs[1] = CTXGEN_TRY(weights_.narrow(op.inputs[1], type_));
    const auto apart = std::ranges::find_if(op.post_ops, runs_apart);
    if (!is_narrow(Operand::value(op.outputs[0])) || apart == op.post_ops.end()) {
      program().ops.push_back(std::move(op));
      return {};
    }
    ProgramOp point;
    point.kind = kind::kPoint;
    point.name = op.name;
    point.outputs = op.outputs;
    point.post_ops.assign(apart, op.post_ops.end());
    op.post_ops.erase(apart, op.post_ops.end());
    op.outputs = {copy_of(op.outputs[0], DataType::kFloat)};
    point.inputs = {Operand::value(op.outputs[0])};
    program().ops.push_back(std::move(op));
    program().ops.push_back(std::move(point));
    return {};
  }

  void add_pointwise(ProgramOp op) {
    bool any = is_narrow(Operand::value(op.outputs[0]));
    for_each_operand(std::as_const(op),
                     [&](const Operand& operand) { any = any || is_narrow(operand); });
    if (any && op.kind != kind::kScaleShift) op = *as_point(program(), op);
    program().ops.push_back(std::move(op));
  }

  /// A value like another one.
  std::uint32_t copy_of(std::uint32_t value, DataType type) {
    ProgramValue copy = program().values[value];
    copy.type = type;
    program().values.push_back(std::move(copy));
    narrow_.push_back(false);
    return static_cast<std::uint32_t>(program().values.size() - 1);
  }

  /// The value itself, or one that a conversion makes of it, for all products that read it.
  Operand narrowed(const Operand& source, const std::string& reader) {
    if (is_narrow(source)) return source;
    const auto [found, added] = converted_.try_emplace(source.index, 0);
    if (added) {
      found->second = copy_of(source.index, type_);
      ProgramOp point;
      point.kind = kind::kPoint;
      point.name = reader;
      point.inputs = {source};
      point.outputs = {found->second};
      program().ops.push_back(std::move(point));
    }
    return Operand::value(found->second);
  }

  Lowered& lowered_;
  DataType type_;
  bool values_;
  WeightNarrower weights_;
  std::vector<Role> roles_;   // of the ops
  std::vector<bool> narrow_;  // of the values
  std::unordered_map<std::uint32_t, std::uint32_t> converted_;
};

}  // namespace

Status narrow_arithmetic(Lowered& lowered) {
  for (const DataType type : {DataType::kBfloat16, DataType::kFloat16})
    for (const bool values : {true, false}) {
      const auto wants = [&](const DnnlOptions& o) {
        return o.arithmetic && o.arithmetic->type == type && o.arithmetic->values == values;
      };
      if (any_options(lowered, wants))
        CTXGEN_CHECK(Narrowing(lowered, {.type = type, .values = values}).run());
    }
  return {};
}

}  // namespace ctxgen::onednn
