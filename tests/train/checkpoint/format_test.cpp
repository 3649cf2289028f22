// The files of a checkpoint: what is written is read, and bytes of any kind are refused or read alike.
#include "checkpoint/format.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "fuzz/checkpoint_files.hpp"

namespace kolo::test::checkpoints {
namespace {

using namespace train;

CheckpointIndex some_index() {
  CheckpointIndex index{.step = 12,
                        .files = {{"rank-0.safetensors", 100, 0xABC}, {"rank-1.safetensors", 7, 1}}};
  index.tensors["plain"] = {.dtype = "BF16", .shape = {3, 4}, .parts = {{{}, {1}}}};
  index.tensors["number"] = {.dtype = "I64", .parts = {{{}, {0}}}};
  index.tensors["grid"] = {.dtype = "F64", .shape = {2, 6, 3}, .order = {0, 2, 1}};
  index.tensors["grid"].parts = {{{1, Slice{0, 4}, Slice{0, 5}}, {0}},
                                 {{1, Slice{0, 4}, Slice{5, 19}}, {1}},
                                 {{1, Slice{4, 2}, {}}, {0}}};
  return index;
}

TEST(CheckpointFormat, KeepsAnIndex) {
  const CheckpointIndex index = some_index();
  const CheckpointIndex again = parse_index(text_of(index));
  EXPECT_EQ(again.step, 12U);
  EXPECT_EQ(again.files.at(0).name, "rank-0.safetensors");
  EXPECT_EQ(again.files.at(0).bytes, 100U);
  EXPECT_EQ(again.files.at(0).crc, 0xABCU);
  EXPECT_EQ(again.tensors, index.tensors);
  EXPECT_NE(text_of(index).find("\"grid[:,0:4][5:24]\":\"rank-1.safetensors\""), std::string::npos);
  EXPECT_EQ(crc32_of("123456789", 9), 0xCBF43926U);
  EXPECT_EQ(crc32_of("6789", 4, crc32_of("12345", 5)), 0xCBF43926U);
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
  const auto problem = [](const Sizes& shape, std::vector<Region> regions) -> std::string {
    CheckpointIndex index{.files = {{"a"}, {"b"}}, .tensors = {{"x", {.dtype = "F32", .shape = shape}}}};
    for (const Region& region : regions)
      index.tensors["x"].parts.push_back({region, {static_cast<int>(index.tensors["x"].parts.size())}});
    try {
      parse_index(text_of(index));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  const auto range = [](std::int64_t begin, std::int64_t end) {
    return Region{.range = Slice{begin, end - begin}};
  };
  EXPECT_EQ(problem({9}, {range(4, 9), range(0, 4)}), "");
  EXPECT_EQ(problem({9}, {{}}), "");
  EXPECT_EQ(problem({9}, {range(0, 4), range(5, 9)}), "of 'x', elements 4 to 5 are on no file [K713]");
  EXPECT_EQ(problem({9}, {range(0, 5), range(4, 9)}),
            "of 'x', elements 4 to 5 are in different regions of files 0 and 1 [K713]");
  EXPECT_EQ(problem({9}, {range(0, 8)}), "of 'x', elements 8 to 9 are on no file [K713]");
  EXPECT_EQ(problem({9}, {range(0, 10)}), "the region of 'x' is not within it [K713]");
  EXPECT_NE(problem({9}, {}), "");
  const auto rows = [](std::int64_t begin, std::int64_t end) {
    return Region{.cut = Slice{begin, end - begin}};
  };
  EXPECT_EQ(problem({4, 2}, {rows(0, 2), rows(2, 4)}), "");
  EXPECT_EQ(problem({4, 2}, {rows(0, 2), rows(3, 4)}),
            "of 'x', dimension 0, indices 2 to 3 are on no file [K713]");
  EXPECT_EQ(problem({4, 2}, {rows(0, 2)}), "of 'x', dimension 0, indices 2 to 4 are on no file [K713]");
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
