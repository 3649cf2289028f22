// The files of a checkpoint: what is written is read, and bytes of any kind are refused or read alike.
#include "checkpoint/format.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "fuzz/checkpoint_files.hpp"

namespace kolo::test::checkpoints {
namespace {

using namespace train;

StoredTensor vector_of(std::int64_t size, std::vector<StoredPart> parts) {
  return {.dtype = "F32", .shape = {size}, .parts = std::move(parts)};
}

CheckpointIndex some_index() {
  CheckpointIndex index{.step = 12,
                        .files = {{"rank-0.safetensors", {100, 0xABC}}, {"rank-1.safetensors", {7, 1}}}};
  index.tensors["plain"] = {
      .dtype = "BF16", .shape = {3, 4}, .parts = {{{}, {}, "rank-1.safetensors", "plain"}}};
  index.tensors["number"] = {.dtype = "I64", .parts = {{{}, {}, "rank-0.safetensors", "number"}}};
  index.tensors["grid"] = {.dtype = "F64", .shape = {2, 6, 3}, .dimension = 1, .order = {0, 2, 1}};
  for (const auto& [slice, range] :
       {std::pair(Extent{0, 4}, Extent{0, 5}), {Extent{0, 4}, Extent{5, 24}}, {Extent{4, 6}, Extent{}}})
    index.tensors["grid"].parts.push_back({slice, range, "rank-0.safetensors", ""});
  for (StoredPart& part : index.tensors["grid"].parts) part.key = key_of("grid", index.tensors["grid"], part);
  return index;
}

TEST(CheckpointFormat, KeepsAnIndex) {
  const CheckpointIndex index = some_index();
  const CheckpointIndex again = parse_index(text_of(index));
  EXPECT_EQ(again.step, 12U);
  EXPECT_EQ(again.files.at("rank-0.safetensors").bytes, 100U);
  EXPECT_EQ(again.files.at("rank-0.safetensors").crc, 0xABCU);
  EXPECT_EQ(again.tensors, index.tensors);
  EXPECT_NE(text_of(index).find("\"grid[:,0:4][5:24]\":\"rank-0.safetensors\""), std::string::npos);
  EXPECT_EQ(crc32("123456789", 9), 0xCBF43926U);
  EXPECT_EQ(crc32("6789", 4, crc32("12345", 5)), 0xCBF43926U);
}

TEST(CheckpointFormat, KeepsAHeaderWithTheWidestElementsFirst) {
  FileHeader header{.step = 3};
  header.entries = {{"a", {"U8", {3}}}, {"b", {"F64", {2, 2}}}, {"c", {"F16", {}}}, {"d", {"F32", {0, 5}}}};
  const std::string start = lay_out(header);
  EXPECT_EQ(start.size() % 64, 0U);
  EXPECT_EQ(header.bytes, start.size() + 32 + 2 + 3);
  const FileHeader again = parse_header(start, header.bytes);
  EXPECT_EQ(again.step, 3U);
  for (const auto& [key, entry] : header.entries) {
    EXPECT_EQ(again.entries.at(key).begin, entry.begin) << key;
    EXPECT_EQ(entry.begin % std::max<std::uint64_t>(element_bytes(entry.dtype), 1), 0U) << key;
  }
  EXPECT_THROW(parse_header(start, header.bytes - 1), std::exception);
  EXPECT_THROW(parse_header(start.substr(0, start.size() - 1), header.bytes), std::exception);
}

TEST(CheckpointFormat, RefusesHolesAndOverlaps) {
  const auto problem = [](StoredTensor tensor) -> std::string {
    try {
      tensor.require_whole("x");
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  const auto range = [](std::int64_t begin, std::int64_t end) { return StoredPart{.range = {begin, end}}; };
  EXPECT_EQ(problem(vector_of(9, {range(4, 9), range(0, 4)})), "");
  EXPECT_EQ(problem(vector_of(9, {{}})), "");
  EXPECT_EQ(problem(vector_of(9, {range(0, 4), range(5, 9)})),
            "the parts of 'x' have a hole or an overlap before x[5:9]");
  EXPECT_EQ(problem(vector_of(9, {range(0, 5), range(4, 9)})),
            "the parts of 'x' have a hole or an overlap before x[4:9]");
  EXPECT_EQ(problem(vector_of(9, {range(0, 8)})), "the parts of 'x' have a hole after x[0:8]");
  EXPECT_EQ(problem(vector_of(9, {range(0, 10)})), "the parts of 'x' have a hole after x[0:10]");
  EXPECT_NE(problem(vector_of(9, {})), "");
  const auto rows = [](std::int64_t begin, std::int64_t end) { return StoredPart{.slice = {begin, end}}; };
  StoredTensor table{.dtype = "F32", .shape = {4, 2}, .parts = {rows(0, 2), rows(2, 4)}};
  EXPECT_EQ(problem(table), "");
  table.parts = {rows(0, 2), rows(3, 4)};
  EXPECT_EQ(problem(table), "the parts of 'x' have a hole or an overlap before x[3:4,...]");
  table.parts = {rows(0, 2)};
  EXPECT_EQ(problem(table), "the parts of 'x' do not reach its end");
}

TEST(CheckpointFormat, IsReadAlikeOrRefusedWhateverTheBytes) {
  FileHeader header{.entries = {{"a", {"U8", {3}}}, {"b", {"F64", {2, 2}}}}};
  const std::string index = text_of(some_index());
  std::mt19937 random(1);
  for (const std::string& good : {lay_out(header), index.substr(index.find('\n') + 1)}) {
    for (int round = 0; round < 3000; ++round) {
      std::string bytes = good;
      for (int change = 0; change < round % 4; ++change) {
        const std::size_t at = random() % bytes.size();
        if (random() % 2 == 0) {
          bytes[at] = "0123456789-:,[]{}\"ex"[random() % 20];
        } else {
          bytes.erase(at, random() % 9);
        }
        if (bytes.empty()) break;
      }
      fuzz::checkpoint_files(bytes);
    }
  }
}

}  // namespace
}  // namespace kolo::test::checkpoints
