// The C API, over the shared library. Expected values are those of the models' formulas.

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "../compiler/parse_model.h"
#include "c_api_status.h"
#include "ctxgen_runtime.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

constexpr const char* kHeader = "<ir_version: 9, opset_import: [\"\" : 18]>\n";

constexpr const char* kAdd =
    R"(g (float[n, 2] x, float[2] w) => (float[n, 2] y) <float[2] w = {1, -10}> {
  s = Add (x, w)
  y = Relu (s)
})";

constexpr std::int64_t kOneRow[] = {1, 2};

ctxgen_tensor tensor(const float* data, const std::int64_t* dims, std::size_t rank) {
  std::size_t count = 1;
  for (std::size_t i = 0; i < rank; ++i) count *= static_cast<std::size_t>(dims[i]);
  return {sizeof(ctxgen_tensor), 1, rank, dims, data, count * 4};
}

class RuntimeCApi : public testing::Test {
 protected:
  void TearDown() override {
    ctxgen_run_context_release(context);
    ctxgen_session_release(session);
    ctxgen_session_options_release(options);
  }
  Failure open(const std::string& graph) {
    model = parse_model(kHeader + graph);
    if (Failure f = take(ctxgen_session_create_from_memory(nullptr, model.bytes.data(),
                                                           model.bytes.size(), options, &session));
        f.code != CTXGEN_OK)
      return f;
    return take(ctxgen_run_context_create(session, &context));
  }
  void set_options() { ASSERT_DONE(ctxgen_session_options_create(&options)); }
  std::vector<float> output(std::size_t index = 0) {
    ctxgen_tensor out{};
    out.struct_size = sizeof out;
    const Failure failure = take(ctxgen_run_context_output(context, index, &out));
    EXPECT_EQ(failure.code, CTXGEN_OK) << failure.message;
    std::vector<float> values(out.size / 4);
    if (out.size > 0) std::memcpy(values.data(), out.data, out.size);
    return values;
  }

  Blob model;
  ctxgen_session_options* options = nullptr;
  ctxgen_session* session = nullptr;
  ctxgen_run_context* context = nullptr;
};

using Floats = std::vector<float>;

TEST_F(RuntimeCApi, TellsInputsAndOutputs) {
  ASSERT_EQ(open(kAdd).code, CTXGEN_OK);
  ASSERT_EQ(ctxgen_session_input_count(session), 2U);
  ASSERT_EQ(ctxgen_session_output_count(session), 1U);
  ctxgen_value_info info{};
  info.struct_size = sizeof info;
  ASSERT_DONE(ctxgen_session_input(session, 0, &info));
  EXPECT_STREQ(info.name, "x");
  EXPECT_STREQ(info.type_text, "float32[n, 2]");
  EXPECT_EQ(info.kind, CTXGEN_KIND_TENSOR);
  EXPECT_EQ(info.element_type, 1);
  ASSERT_EQ(info.has_rank, 1);
  ASSERT_EQ(info.rank, 2U);
  EXPECT_EQ(info.dims[0], -1);
  EXPECT_EQ(info.dims[1], 2);
  EXPECT_STREQ(info.dim_names[0], "n");
  EXPECT_STREQ(info.dim_names[1], "");
  EXPECT_EQ(info.has_default, 0);
  ASSERT_DONE(ctxgen_session_input(session, 1, &info));
  EXPECT_EQ(info.has_default, 1);
  EXPECT_EQ(code(ctxgen_session_input(session, 2, &info)), CTXGEN_INVALID_ARGUMENT);
  info.struct_size = 8;
  EXPECT_EQ(code(ctxgen_session_output(session, 0, &info)), CTXGEN_INVALID_ARGUMENT);
  size_t index = 9;
  ASSERT_DONE(ctxgen_session_input_index(session, "w", &index));
  EXPECT_EQ(index, 1U);
  ASSERT_DONE(ctxgen_session_output_index(session, "y", &index));
  EXPECT_EQ(index, 0U);
  EXPECT_EQ(code(ctxgen_session_output_index(session, "x", &index)), CTXGEN_INVALID_ARGUMENT);
}

TEST_F(RuntimeCApi, RunsWithTheCallersMemoryInAndOut) {
  ASSERT_EQ(open(kAdd).code, CTXGEN_OK);
  float x[] = {1, 20}, y[] = {0, 0, 7};
  const ctxgen_tensor in = tensor(x, kOneRow, 2);
  ASSERT_DONE(ctxgen_run_context_set_input(context, 0, &in));
  ASSERT_DONE(ctxgen_run_context_run(context));
  EXPECT_EQ(output(), (Floats{2, 10}));
  ASSERT_DONE(ctxgen_run_context_set_output(context, 0, y, sizeof y));
  x[0] = 5;
  ASSERT_DONE(ctxgen_run_context_run(context));
  EXPECT_EQ(Floats(y, y + 3), (Floats{6, 10, 7}));
  EXPECT_EQ(output(), (Floats{6, 10}));
  ASSERT_DONE(ctxgen_run_context_set_output(context, 0, y, 4));
  EXPECT_EQ(code(ctxgen_run_context_run(context)), CTXGEN_INVALID_ARGUMENT);
  ctxgen_tensor out{};
  out.struct_size = sizeof out;
  EXPECT_EQ(code(ctxgen_run_context_output(context, 0, &out)), CTXGEN_INVALID_ARGUMENT)
      << "the last run failed";
}

TEST_F(RuntimeCApi, AnOutputThatIsKeptOutlivesRunsAndHandles) {
  ASSERT_EQ(open(kAdd).code, CTXGEN_OK);
  float x[] = {1, 20};
  const ctxgen_tensor in = tensor(x, kOneRow, 2);
  ASSERT_DONE(ctxgen_run_context_set_input(context, 0, &in));
  ASSERT_DONE(ctxgen_run_context_run(context));
  ctxgen_value* kept = nullptr;
  ASSERT_DONE(ctxgen_run_context_create_output(context, 0, &kept));
  ctxgen_session_release(session);  // the context keeps it
  session = nullptr;
  x[0] = 5;
  ASSERT_DONE(ctxgen_run_context_run(context));
  EXPECT_EQ(output(), (Floats{6, 10}));
  ctxgen_run_context_release(context);
  context = nullptr;
  ctxgen_tensor out{};
  out.struct_size = sizeof out;
  ASSERT_DONE(ctxgen_value_tensor(kept, &out));
  ASSERT_EQ(out.size, 8U);
  EXPECT_EQ(out.dims[1], 2);
  const float wanted[] = {2, 10};
  EXPECT_EQ(std::memcmp(out.data, wanted, 8), 0);
  ctxgen_value_release(kept);
}

TEST_F(RuntimeCApi, TensorsAreChecked) {
  ASSERT_EQ(open(kAdd).code, CTXGEN_OK);
  const float x[] = {1, 20};
  const std::int64_t negative[] = {-1, 2};
  const std::int64_t huge[] = {INT64_MAX, INT64_MAX};
  const std::vector<std::int64_t> many(13, 1);
  const ctxgen_tensor good = tensor(x, kOneRow, 2);
  const auto refused = [&](auto change) {
    ctxgen_tensor bad = good;
    change(bad);
    ctxgen_value* none = nullptr;
    EXPECT_EQ(code(ctxgen_value_create_tensor(&bad, &none)), CTXGEN_INVALID_ARGUMENT);
    EXPECT_EQ(none, nullptr);
    return code(ctxgen_run_context_set_input(context, 0, &bad)) == CTXGEN_INVALID_ARGUMENT;
  };
  EXPECT_TRUE(refused([](ctxgen_tensor& t) { t.struct_size = 4; }));
  EXPECT_TRUE(refused([](ctxgen_tensor& t) { t.type = 0; }));
  EXPECT_TRUE(refused([](ctxgen_tensor& t) { t.type = 8; }));
  EXPECT_TRUE(refused([](ctxgen_tensor& t) { t.type = 9999; }));
  EXPECT_TRUE(refused([](ctxgen_tensor& t) { t.size = 7; }));
  EXPECT_TRUE(refused([](ctxgen_tensor& t) { t.data = nullptr; }));
  EXPECT_TRUE(refused([](ctxgen_tensor& t) { t.dims = nullptr; }));
  EXPECT_TRUE(refused([&](ctxgen_tensor& t) { t.dims = negative; }));
  EXPECT_TRUE(refused([&](ctxgen_tensor& t) { t.dims = huge; }));
  EXPECT_TRUE(refused([&](ctxgen_tensor& t) {
    t.dims = many.data();
    t.rank = many.size();
  }));
  EXPECT_EQ(code(ctxgen_run_context_set_input(context, 0, nullptr)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_run_context_set_input(context, 2, &good)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_run_context_set_output(context, 1, nullptr, 0)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_run_context_set_output(context, 0, nullptr, 8)), CTXGEN_INVALID_ARGUMENT);
}

TEST_F(RuntimeCApi, NullIsAnErrorAndNoCrash) {
  EXPECT_EQ(code(ctxgen_environment_create(nullptr, nullptr, CTXGEN_LOG_INFO, nullptr)),
            CTXGEN_INVALID_ARGUMENT);
  ctxgen_environment* environment = nullptr;
  EXPECT_EQ(code(ctxgen_environment_create(nullptr, nullptr, 7, &environment)),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_session_options_create(nullptr)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_session_options_set_threads(nullptr, 1)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_session_create_from_file(nullptr, nullptr, nullptr, &session)),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_session_create_from_file(nullptr, "x.onnx", nullptr, nullptr)),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_session_create_from_memory(nullptr, nullptr, 8, nullptr, &session)),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(ctxgen_session_input_count(nullptr), 0U);
  EXPECT_EQ(ctxgen_session_output_count(nullptr), 0U);
  EXPECT_EQ(code(ctxgen_session_input(nullptr, 0, nullptr)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_run_context_create(nullptr, &context)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_run_context_run(nullptr)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_run_context_output(nullptr, 0, nullptr)), CTXGEN_INVALID_ARGUMENT);
  ctxgen_run_context_stop(nullptr);
  EXPECT_EQ(ctxgen_value_kind_of(nullptr), CTXGEN_KIND_UNKNOWN);
  EXPECT_EQ(ctxgen_value_item_count(nullptr), 0U);
  EXPECT_EQ(code(ctxgen_value_tensor(nullptr, nullptr)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(session, nullptr);
}

TEST_F(RuntimeCApi, ErrorsHaveCodes) {
  const char junk[] = "this is no model";
  EXPECT_EQ(code(ctxgen_session_create_from_memory(nullptr, junk, sizeof junk, nullptr, &session)),
            CTXGEN_INVALID_GRAPH);
  EXPECT_EQ(code(ctxgen_session_create_from_file(nullptr, "/nonexistent.onnx", nullptr, &session)),
            CTXGEN_IO_ERROR);
  EXPECT_EQ(session, nullptr);
}

TEST_F(RuntimeCApi, Compatibility) {
  model = parse_model(std::string(kHeader) + kAdd);
  ctxgen_verdict verdict = CTXGEN_FIT_UNSUPPORTED;
  char reason[16] = "x";
  ASSERT_DONE(ctxgen_compatibility_memory(model.bytes.data(), model.bytes.size(), nullptr, &verdict,
                                          reason, sizeof reason));
  EXPECT_EQ(verdict, CTXGEN_FIT_NOT_COMPILED);
  EXPECT_STREQ(reason, "");
  const Blob foreign = parse_model(R"(<ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]>
g (float[2] x) => (float[2] y) { y = com.microsoft.EPContext <source = "Other"> (x) })");
  ASSERT_DONE(ctxgen_compatibility_memory(foreign.bytes.data(), foreign.bytes.size(), nullptr,
                                          &verdict, reason, sizeof reason));
  EXPECT_EQ(verdict, CTXGEN_FIT_UNSUPPORTED);
  EXPECT_EQ(std::string(reason).size(), sizeof reason - 1) << "cut";
  ASSERT_DONE(ctxgen_compatibility_memory(foreign.bytes.data(), foreign.bytes.size(), nullptr,
                                          &verdict, nullptr, 0));
  EXPECT_EQ(code(ctxgen_compatibility("/nonexistent.onnx", nullptr, &verdict, nullptr, 0)),
            CTXGEN_IO_ERROR);
  EXPECT_EQ(code(ctxgen_compatibility(nullptr, nullptr, &verdict, nullptr, 0)),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compatibility("x.onnx", nullptr, nullptr, nullptr, 0)),
            CTXGEN_INVALID_ARGUMENT);
}

TEST_F(RuntimeCApi, Stop) {
  ASSERT_EQ(open(kAdd).code, CTXGEN_OK);
  const float x[] = {1, 20};
  const ctxgen_tensor in = tensor(x, kOneRow, 2);
  ASSERT_DONE(ctxgen_run_context_set_input(context, 0, &in));
  ctxgen_run_context_stop(context);
  EXPECT_EQ(code(ctxgen_run_context_run(context)), CTXGEN_CANCELLED);
  ASSERT_DONE(ctxgen_run_context_run(context));
}

TEST_F(RuntimeCApi, Profiles) {
  const test::TempFolder folder;
  const std::string path = (folder / "p.json").string();
  ASSERT_EQ(open(kAdd).code, CTXGEN_OK);
  const float x[] = {1, 20};
  const ctxgen_tensor in = tensor(x, kOneRow, 2);
  ASSERT_DONE(ctxgen_run_context_set_input(context, 0, &in));
  ASSERT_DONE(ctxgen_run_context_run(context));
  EXPECT_EQ(code(ctxgen_run_context_write_profile(context, path.c_str())), CTXGEN_INVALID_ARGUMENT)
      << "no run was recorded";
  ASSERT_DONE(ctxgen_run_context_set_profiling(context, 1));
  ASSERT_DONE(ctxgen_run_context_run(context));
  EXPECT_EQ(code(ctxgen_run_context_write_profile(context, "/nonexistent/p.json")),
            CTXGEN_IO_ERROR);
  ASSERT_DONE(ctxgen_run_context_write_profile(context, path.c_str()));
  const std::string text = test::read_text(path);
  EXPECT_TRUE(text.contains("\"Add\"") && text.contains("\"Relu\"") && text.contains("\"run 0\""))
      << text;
  EXPECT_EQ(code(ctxgen_run_context_write_profile(context, path.c_str())), CTXGEN_INVALID_ARGUMENT)
      << "it is forgotten";
}

// ---- values that are no tensors of numbers ------------------------------------------------------

TEST_F(RuntimeCApi, Strings) {
  model = parse_model(
      "<ir_version: 9, opset_import: [\"\" : 20]>\n"
      "g (string[k] a, string[k] b) => (string[k] c) { c = StringConcat (a, b) }");
  ASSERT_DONE(ctxgen_session_create_from_memory(nullptr, model.bytes.data(), model.bytes.size(),
                                                nullptr, &session));
  ASSERT_DONE(ctxgen_run_context_create(session, &context));
  const std::int64_t two[] = {2};
  const char* left[] = {"ab", "a long text that needs memory of its own"};
  const char* right[] = {"x\0y", ""};
  const size_t sizes[] = {3, 0};
  ctxgen_value *a = nullptr, *b = nullptr, *c = nullptr;
  ASSERT_DONE(ctxgen_value_create_strings(two, 1, left, nullptr, 2, &a));
  ASSERT_DONE(ctxgen_value_create_strings(two, 1, right, sizes, 2, &b));
  EXPECT_EQ(code(ctxgen_value_create_strings(two, 1, left, nullptr, 1, &c)),
            CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_run_context_set_input_value(context, 0, a));
  ASSERT_DONE(ctxgen_run_context_set_input_value(context, 1, b));
  ctxgen_value_release(a);
  ctxgen_value_release(b);
  for (int run = 0; run < 2; ++run) {
    ASSERT_DONE(ctxgen_run_context_run(context));
    ASSERT_DONE(ctxgen_run_context_create_output(context, 0, &c));
    const char* text = nullptr;
    size_t size = 0;
    ASSERT_DONE(ctxgen_value_string(c, 0, &text, &size));
    EXPECT_EQ(std::string(text, size), std::string("abx\0y", 5));
    ASSERT_DONE(ctxgen_value_string(c, 1, &text, &size));
    EXPECT_STREQ(text, left[1]);
    EXPECT_EQ(code(ctxgen_value_string(c, 2, &text, &size)), CTXGEN_INVALID_ARGUMENT);
    ctxgen_value_release(c);
  }
  char memory[64];
  ASSERT_DONE(ctxgen_run_context_set_output(context, 0, memory, sizeof memory));
  EXPECT_EQ(code(ctxgen_run_context_run(context)), CTXGEN_INVALID_ARGUMENT)
      << "strings have no bytes to write there";
}

TEST_F(RuntimeCApi, SequencesInAndOut) {
  ASSERT_EQ(
      open("g (seq(float) s, float[k] t) => (seq(float) r) { r = SequenceInsert (s, t) }").code,
      CTXGEN_OK);
  const float values[] = {1, 2};
  const std::int64_t two[] = {2};
  const ctxgen_tensor in = tensor(values, two, 1);
  ctxgen_value *item = nullptr, *sequence = nullptr, *result = nullptr;
  ASSERT_DONE(ctxgen_value_create_tensor(&in, &item));
  ASSERT_DONE(ctxgen_value_create_sequence(1, &item, 1, &sequence));
  EXPECT_EQ(code(ctxgen_value_create_sequence(7, &item, 1, &result)), CTXGEN_INVALID_ARGUMENT);
  ctxgen_value_release(item);
  ASSERT_DONE(ctxgen_run_context_set_input_value(context, 0, sequence));
  ctxgen_value_release(sequence);
  ASSERT_DONE(ctxgen_run_context_set_input(context, 1, &in));
  ASSERT_DONE(ctxgen_run_context_run(context));
  ctxgen_tensor out{};
  out.struct_size = sizeof out;
  EXPECT_EQ(code(ctxgen_run_context_output(context, 0, &out)), CTXGEN_NOT_IMPLEMENTED);
  ASSERT_DONE(ctxgen_run_context_create_output(context, 0, &result));
  EXPECT_EQ(ctxgen_value_kind_of(result), CTXGEN_KIND_SEQUENCE);
  ASSERT_EQ(ctxgen_value_item_count(result), 2U);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_DONE(ctxgen_value_create_item(result, i, &item));
    ASSERT_DONE(ctxgen_value_tensor(item, &out));
    EXPECT_NE(out.data, static_cast<const void*>(values)) << "its own memory";
    EXPECT_EQ(std::memcmp(out.data, values, 8), 0);
    ctxgen_value_release(item);
  }
  EXPECT_EQ(code(ctxgen_value_create_item(result, 2, &item)), CTXGEN_INVALID_ARGUMENT);
  ctxgen_value_release(result);
}

TEST_F(RuntimeCApi, EmptyOptionals) {
  ASSERT_EQ(open("g (optional(float[k]) o) => (bool h) { h = OptionalHasElement (o) }").code,
            CTXGEN_OK);
  ctxgen_value_info info{};
  info.struct_size = sizeof info;
  ASSERT_DONE(ctxgen_session_input(session, 0, &info));
  EXPECT_EQ(info.kind, CTXGEN_KIND_OPTIONAL);
  const auto has = [&] {
    ctxgen_tensor out{};
    out.struct_size = sizeof out;
    EXPECT_EQ(code(ctxgen_run_context_run(context)), CTXGEN_OK);
    EXPECT_EQ(code(ctxgen_run_context_output(context, 0, &out)), CTXGEN_OK);
    return *static_cast<const char*>(out.data) != 0;
  };
  ctxgen_value* empty = nullptr;
  ASSERT_DONE(ctxgen_value_create_empty_optional(&empty));
  EXPECT_EQ(ctxgen_value_kind_of(empty), CTXGEN_KIND_OPTIONAL);
  ASSERT_DONE(ctxgen_run_context_set_input_value(context, 0, empty));
  EXPECT_FALSE(has());
  ctxgen_value_release(empty);
  const float values[] = {1, 2};
  const std::int64_t two[] = {2};
  const ctxgen_tensor in = tensor(values, two, 1);
  ASSERT_DONE(ctxgen_run_context_set_input(context, 0, &in));
  EXPECT_TRUE(has());
  ASSERT_DONE(ctxgen_run_context_set_input_value(context, 0, nullptr));
  EXPECT_FALSE(has()) << "an optional that is not given is empty";
}

TEST_F(RuntimeCApi, Maps) {
  const std::int64_t two[] = {2}, keys[] = {3, 9}, wrong[] = {9, 3};
  const float values[] = {1, 2};
  const ctxgen_tensor k{sizeof(ctxgen_tensor), 7, 1, two, keys, 16};
  const ctxgen_tensor bad{sizeof(ctxgen_tensor), 7, 1, two, wrong, 16};
  const ctxgen_tensor v = tensor(values, two, 1);
  ctxgen_value *key = nullptr, *value = nullptr, *unsorted = nullptr, *map = nullptr,
               *item = nullptr;
  ASSERT_DONE(ctxgen_value_create_tensor(&k, &key));
  ASSERT_DONE(ctxgen_value_create_tensor(&bad, &unsorted));
  ASSERT_DONE(ctxgen_value_create_tensor(&v, &value));
  EXPECT_EQ(code(ctxgen_value_create_map(value, key, &map)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_value_create_map(unsorted, value, &map)), CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_value_create_map(key, value, &map));
  EXPECT_EQ(ctxgen_value_kind_of(map), CTXGEN_KIND_MAP);
  ASSERT_EQ(ctxgen_value_item_count(map), 2U);
  ASSERT_DONE(ctxgen_value_create_item(map, 0, &item));
  ctxgen_tensor out{};
  out.struct_size = sizeof out;
  ASSERT_DONE(ctxgen_value_tensor(item, &out));
  EXPECT_EQ(std::memcmp(out.data, keys, 16), 0);
  for (ctxgen_value* one : {key, value, unsorted, map, item}) ctxgen_value_release(one);
}

// ---- options ------------------------------------------------------------------------------------

TEST_F(RuntimeCApi, SetConfig) {
  set_options();
  EXPECT_EQ(code(ctxgen_session_options_set_config(options, "session.no_such_key", "1")),
            CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_session_options_set_config(options, "session.disable_cpu_ep_fallback", "1"));
  EXPECT_EQ(open(kAdd).code, CTXGEN_NOT_SATISFIED) << "both nodes run on the CPU";
}

constexpr const char* kSum = R"(g (float[n, 2] x, float[1, 2] state) => (float[1, 2] new_state) {
  s = ReduceSum (x)
  new_state = Add (state, s)
})";

TEST_F(RuntimeCApi, States) {
  set_options();
  ASSERT_DONE(ctxgen_session_options_add_state(options, "auto"));
  ASSERT_EQ(open(kSum).code, CTXGEN_OK);
  ASSERT_EQ(ctxgen_session_state_count(session), 1U);
  ctxgen_state_info info{};
  EXPECT_EQ(code(ctxgen_session_state(session, 0, &info)), CTXGEN_INVALID_ARGUMENT);
  info.struct_size = sizeof info;
  EXPECT_EQ(code(ctxgen_session_state(session, 1, &info)), CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_session_state(session, 0, &info));
  EXPECT_STREQ(info.input, "state");
  EXPECT_STREQ(info.output, "new_state");
  EXPECT_EQ(info.grows, 0);
  EXPECT_EQ(info.in_place, 0);
  ctxgen_state *state = nullptr, *copy = nullptr;
  ctxgen_value* value = nullptr;
  ASSERT_DONE(ctxgen_state_create(session, &state));
  EXPECT_EQ(code(ctxgen_state_create_value(state, 0, &value)), CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_run_context_set_state(context, state));
  const float x[] = {1, 2};
  const ctxgen_tensor in = tensor(x, kOneRow, 2);
  ASSERT_DONE(ctxgen_run_context_set_input(context, 0, &in));
  ASSERT_DONE(ctxgen_run_context_run(context));
  ASSERT_DONE(ctxgen_state_fork(state, &copy));
  ASSERT_DONE(ctxgen_run_context_run(context));
  const auto first_of = [&](ctxgen_state* one) {
    ctxgen_tensor out{};
    out.struct_size = sizeof out;
    EXPECT_EQ(code(ctxgen_state_create_value(one, 0, &value)), CTXGEN_OK);
    EXPECT_EQ(code(ctxgen_value_tensor(value, &out)), CTXGEN_OK);
    float first = 0;
    std::memcpy(&first, out.data, sizeof first);
    ctxgen_value_release(value);
    return first;
  };
  EXPECT_EQ(first_of(state), 6);
  EXPECT_EQ(first_of(copy), 3);
  ASSERT_DONE(ctxgen_state_reset(state));
  ASSERT_DONE(ctxgen_state_reserve(state, 5));
  EXPECT_EQ(code(ctxgen_state_reserve(state, -1)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_state_rewind(state, 1)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(ctxgen_state_length(state), 0);
  EXPECT_GE(ctxgen_state_bytes(copy), 8U);
  EXPECT_EQ(ctxgen_state_bytes(nullptr), 0U);
  EXPECT_EQ(code(ctxgen_state_reset(nullptr)), CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_run_context_set_state(context, nullptr));
  ctxgen_state_release(copy);
  ctxgen_state_release(state);
}

TEST_F(RuntimeCApi, SetThreadsAndKeptPlans) {
  set_options();
  EXPECT_EQ(code(ctxgen_session_options_set_threads(options, -1)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_session_options_set_threads(options, 4097)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_session_options_set_kept_plans(options, 0)), CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_session_options_set_threads(options, 1));
  ASSERT_DONE(ctxgen_session_options_set_kept_plans(options, 1));
  EXPECT_EQ(open(kAdd).code, CTXGEN_OK);
}

TEST_F(RuntimeCApi, SetMaxRunBytes) {
  set_options();
  ASSERT_DONE(ctxgen_session_options_set_max_run_bytes(options, 1000));
  ASSERT_EQ(open(kAdd).code, CTXGEN_OK);
  const std::vector<float> x(2000);
  const std::int64_t dims[] = {1000, 2};
  const ctxgen_tensor in = tensor(x.data(), dims, 2);
  ASSERT_DONE(ctxgen_run_context_set_input(context, 0, &in));
  EXPECT_EQ(code(ctxgen_run_context_run(context)), CTXGEN_RESOURCE_LIMIT);
}

TEST_F(RuntimeCApi, SetVerifyBlobsAndWeightMemory) {
  set_options();
  EXPECT_EQ(code(ctxgen_session_options_set_verify_blobs(options, 3)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_session_options_set_weight_memory(options, 3)), CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_session_options_set_verify_blobs(options, CTXGEN_VERIFY_ALWAYS));
  ASSERT_DONE(ctxgen_session_options_set_weight_memory(options, CTXGEN_WEIGHTS_PREFAULT));
  EXPECT_EQ(open(kAdd).code, CTXGEN_OK);
}

TEST_F(RuntimeCApi, AddExternalData) {
  onnx::ModelProto proto;
  ASSERT_TRUE(onnx::OnnxParser::Parse(proto, (std::string(kHeader) + kAdd).c_str()).IsOK());
  onnx::TensorProto& w = *proto.mutable_graph()->mutable_initializer(0);
  w.clear_float_data();
  w.clear_raw_data();
  w.set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = w.add_external_data();
  location->set_key("location");
  location->set_value("weights.bin");
  const std::string bytes = proto.SerializeAsString();
  const float weights[] = {100, 200};
  set_options();
  EXPECT_EQ(code(ctxgen_session_create_from_memory(nullptr, bytes.data(), bytes.size(), options,
                                                   &session)),
            CTXGEN_INVALID_GRAPH);
  EXPECT_EQ(code(ctxgen_session_options_add_external_data(options, "", weights, 8)),
            CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_session_options_add_external_data(options, "weights.bin", weights, 8));
  EXPECT_EQ(code(ctxgen_session_options_add_external_data(options, "weights.bin", weights, 8)),
            CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(
      ctxgen_session_create_from_memory(nullptr, bytes.data(), bytes.size(), options, &session));
  ASSERT_DONE(ctxgen_run_context_create(session, &context));
  const float x[] = {1, 20};
  const ctxgen_tensor in = tensor(x, kOneRow, 2);
  ASSERT_DONE(ctxgen_run_context_set_input(context, 0, &in));
  ASSERT_DONE(ctxgen_run_context_run(context));
  EXPECT_EQ(output(), (Floats{101, 220}));
}

TEST_F(RuntimeCApi, SharingEndsOnlyWhereThereIsAGroup) {
  set_options();
  ASSERT_DONE(ctxgen_session_options_set_config(options, "ep.stop_share_ep_contexts", "1"));
  EXPECT_EQ(open(kAdd).code, CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_session_options_set_config(options, "ep.share_ep_contexts", "1"));
  EXPECT_EQ(open(kAdd).code, CTXGEN_OK);
}

TEST(RuntimeCApiThreads, ContextsOfOneSession) {
  const Blob model = parse_model(std::string(kHeader) + kAdd);
  ctxgen_session* session = nullptr;
  ASSERT_DONE(ctxgen_session_create_from_memory(nullptr, model.bytes.data(), model.bytes.size(),
                                                nullptr, &session));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      ctxgen_run_context* own = nullptr;
      if (code(ctxgen_run_context_create(session, &own)) != CTXGEN_OK) ++wrong;
      std::array<float, 10> x{}, y{};
      x.fill(static_cast<float>(20 + t));
      for (int i = 0; i < 200; ++i) {
        const std::int64_t dims[] = {1 + (i + t) % 5, 2};
        const ctxgen_tensor in = tensor(x.data(), dims, 2);
        if (code(ctxgen_run_context_set_input(own, 0, &in)) != CTXGEN_OK ||
            code(ctxgen_run_context_set_output(own, 0, y.data(), sizeof y)) != CTXGEN_OK ||
            code(ctxgen_run_context_run(own)) != CTXGEN_OK || y[1] != static_cast<float>(10 + t))
          ++wrong;
      }
      ctxgen_run_context_release(own);
    });
  for (std::thread& thread : threads) thread.join();
  ctxgen_session_release(session);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ctxgen
