#include "checkpoint/format.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace kolo::train {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");
constexpr int kIndexFormat = 2;
constexpr std::uint64_t kHeaderAlignment = 64;

void require_format(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

std::string hex(std::uint32_t crc) {
  std::array<char, 9> text;
  std::snprintf(text.data(), text.size(), "%08x", crc);
  return text.data();
}

std::string text_of(const Slice& slice) {
  return std::to_string(slice.begin) + ':' + std::to_string(slice.end());
}

/// Files have begin and end.
void put(json& entry, const char* name, const std::optional<Slice>& slice) {
  if (slice) entry[name] = {slice->begin, slice->end()};
}

std::optional<Slice> slice_in(const json& entry, const char* name) {
  if (!entry.contains(name)) return {};
  const auto [begin, end] = entry[name].get<std::pair<std::int64_t, std::int64_t>>();
  require_format(begin >= 0 && begin <= end, "a part is out of range");
  return Slice{begin, end - begin};
}

StoredTensor tensor_in(const std::string& name, const json& from, const std::map<std::string, int>& files) {
  StoredTensor tensor{
      .dtype = from.at("dtype"), .shape = from.at("shape"), .order = from.value("order", Sizes())};
  const auto dimension = from.value("dimension", std::int64_t{0});
  element_bytes(tensor.dtype), element_count(tensor.shape);
  for (const json& part : from.at("parts")) {
    Region region{0, slice_in(part, "slice"), slice_in(part, "range")};
    if (region.cut) region.dimension = dimension;
    require_region(name, tensor.shape, tensor.order, region);
    const auto file = files.find(part.value("file", ""));
    require_format(file != files.end(), '\'' + key_of(name, region) + "' is in no file");
    tensor.parts.push_back({region, {file->second}});
  }
  order_regions(name, tensor.shape, tensor.parts, "file");
  return tensor;
}

}  // namespace

std::uint32_t crc32_of(const void* data, std::size_t bytes, std::uint32_t before) {
  return static_cast<std::uint32_t>(::crc32_z(before, static_cast<const Bytef*>(data), bytes));
}

std::uint64_t element_bytes(const std::string& dtype) {
  if (dtype == "BOOL") return 1;
  const std::size_t digit = dtype.find_first_of("0123456789");
  for (const char* known :
       {"F64", "I64", "U64", "F32", "I32", "U32", "F16", "BF16", "I16", "U16", "I8", "U8"})
    if (dtype == known) return std::stoul(dtype.substr(digit)) / 8;
  throw std::runtime_error("safetensors have no type '" + dtype + "'");
}

std::uint64_t bytes_of(const StoredTensor& tensor, const Region& part) {
  return static_cast<std::uint64_t>(range_of(tensor.shape, part).length) * element_bytes(tensor.dtype);
}

std::string key_of(const std::string& name, const Region& part) {
  std::string key = name;
  if (part.cut) {
    key += '[';
    for (std::int64_t d = 0; d < part.dimension; ++d) key += ":,";
    key += text_of(*part.cut) + (part.dimension == 0 ? ",...]" : "]");
  }
  if (part.range) key += '[' + text_of(*part.range) + ']';
  return key;
}

std::string text_of(const CheckpointIndex& index) {
  json files = json::object(), tensors = json::object(), weights = json::object();
  std::uint64_t sum = 0;
  for (const StoredFile& file : index.files)
    files[file.name] = {{"bytes", file.bytes}, {"crc32", hex(file.crc)}};
  for (const auto& [name, tensor] : index.tensors) {
    json& one = tensors[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"parts", json::array()}};
    if (!tensor.order.empty()) one["order"] = tensor.order;
    for (const auto& [region, numbers] : tensor.parts) {
      const std::string key = key_of(name, region);
      const std::string& file = index.files.at(static_cast<std::size_t>(numbers.at(0))).name;
      json entry = {{"file", file}, {"key", key}};
      if (region.cut && region.dimension != 0) one["dimension"] = region.dimension;
      put(entry, "slice", region.cut);
      put(entry, "range", region.range);
      one["parts"].push_back(std::move(entry));
      weights[key] = file;
      sum += bytes_of(tensor, region);
    }
  }
  const json all = {
      {"metadata", {{"kolo_checkpoint", kIndexFormat}, {"step", index.step}, {"total_size", sum}}},
      {"files", files},
      {"tensors", tensors},
      {"weight_map", weights}};
  const std::string text = all.dump().substr(1) + '\n';
  return "{\"crc32\":\"" + hex(crc32_of(text.data(), text.size())) + "\",\n" + text;
}

CheckpointIndex parse_index(std::string_view text) {
  constexpr std::string_view kBefore = "{\"crc32\":\"", kAfter = "\",\n";
  const std::size_t start = kBefore.size() + 8 + kAfter.size();
  require_format(text.starts_with(kBefore) && text.substr(0, start).ends_with(kAfter),
                 "it is no index of a checkpoint");
  require_format(text.substr(kBefore.size(), 8) == hex(crc32_of(text.data() + start, text.size() - start)),
                 "it is damaged: it has another checksum");
  const json all = json::parse(text);
  const json& metadata = all.at("metadata");
  const auto format = metadata.at("kolo_checkpoint").get<int>();
  require_format(format == kIndexFormat,
                 "it is of format " + std::to_string(format) + ", not " + std::to_string(kIndexFormat));
  CheckpointIndex index{.step = metadata.at("step")};
  std::map<std::string, int> numbers;
  for (const auto& [name, file] : all.at("files").items()) {
    require_format(name.find('/') == std::string::npos, "a file is in another folder");
    numbers[name] = static_cast<int>(index.files.size());
    index.files.push_back(
        {name, file.at("bytes").get<std::uint64_t>(),
         static_cast<std::uint32_t>(std::stoul(file.at("crc32").get<std::string>(), nullptr, 16))});
  }
  for (const auto& [name, one] : all.at("tensors").items())
    index.tensors[name] = tensor_in(name, one, numbers);
  return index;
}

std::string lay_out(FileHeader& header) {
  std::vector<std::pair<std::uint64_t, std::string>> order;  // the widest elements first: all are aligned
  for (const auto& [key, entry] : header.entries) order.emplace_back(element_bytes(entry.dtype), key);
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    return std::tie(b.first, a.second) < std::tie(a.first, b.second);
  });
  json text = {{"__metadata__", {{"format", "pt"}, {"step", std::to_string(header.step)}}}};
  std::uint64_t end = 0;
  for (const auto& [bytes, key] : order) {
    FileEntry& entry = header.entries[key];
    entry.begin = std::exchange(end, end + bytes * static_cast<std::uint64_t>(element_count(entry.shape)));
    entry.end = end;
    text[key] = {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string result = text.dump();
  result.resize((result.size() + kHeaderStart + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment -
                    kHeaderStart,
                ' ');
  std::uint64_t length = result.size();
  result.insert(0, reinterpret_cast<const char*>(&length), kHeaderStart);
  for (auto& [key, entry] : header.entries) entry.begin += result.size(), entry.end += result.size();
  header.bytes = result.size() + end;
  return result;
}

std::uint64_t header_bytes(std::string_view start, std::uint64_t file_bytes) {
  require_format(start.size() >= kHeaderStart, "it is cut off");
  std::uint64_t length;
  std::memcpy(&length, start.data(), kHeaderStart);
  require_format(length <= file_bytes - kHeaderStart, "it is cut off, or no file of safetensors");
  return kHeaderStart + length;
}

FileHeader parse_header(std::string_view start, std::uint64_t file_bytes) {
  require_format(file_bytes >= start.size(), "it is cut off");
  FileHeader header{.bytes = file_bytes};
  const std::uint64_t data = header_bytes(start, file_bytes);
  require_format(start.size() >= data, "it is cut off");
  const json all = json::parse(start.substr(kHeaderStart, data - kHeaderStart));
  for (const auto& [key, one] : all.items()) {
    if (key == "__metadata__") {
      header.step = std::stoull(one.value("step", "0"));
      continue;
    }
    const auto [begin, end] = one.at("data_offsets").get<std::pair<std::uint64_t, std::uint64_t>>();
    FileEntry& entry = header.entries[key];
    one.at("dtype").get_to(entry.dtype);
    one.at("shape").get_to(entry.shape);
    const std::uint64_t bytes =
        element_bytes(entry.dtype) * static_cast<std::uint64_t>(element_count(entry.shape));
    require_format(begin <= end && end - begin == bytes && end <= file_bytes - data,
                   "'" + key + "' is not within it");
    entry.begin = data + begin, entry.end = data + end;
  }
  return header;
}

}  // namespace kolo::train
