#include "checkpoint/format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace kolo::train {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");
constexpr int kIndexFormat = 2;
constexpr std::uint64_t kHeaderAlignment = 64;
constexpr std::int64_t kMostElements = std::int64_t{1} << 56;

/// Row r, column b: the checksum of byte b that r zero bytes follow.
constexpr auto kCrcTable = [] {
  std::array<std::array<std::uint32_t, 256>, 8> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
    table[0][byte] = crc;
  }
  for (std::size_t row = 1; row < table.size(); ++row) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = table[row - 1][byte];
      table[row][byte] = before >> 8 ^ table[0][before & 0xFF];
    }
  }
  return table;
}();

void require_format(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

/// Throws where a product has no place in 64 bits, or a size is negative.
std::int64_t element_count(const std::vector<std::int64_t>& sizes) {
  std::int64_t result = 1;
  for (const std::int64_t size : sizes) {
    require_format(size >= 0 && (size == 0 || result <= kMostElements / size),
                   "a tensor has sizes out of range");
    result *= size;
  }
  return result;
}

std::string hex(std::uint32_t crc) {
  std::array<char, 9> text;
  std::snprintf(text.data(), text.size(), "%08x", crc);
  return text.data();
}

std::string text_of(const Extent& extent) {
  return std::to_string(extent.begin) + ':' + std::to_string(extent.end);
}

json json_of(const StoredTensors& tensors) {
  json result = json::object();
  for (const auto& [name, tensor] : tensors) {
    json& one = result[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}};
    if (tensor.dimension != 0) one["dimension"] = tensor.dimension;
    if (!tensor.order.empty()) one["order"] = tensor.order;
    for (const StoredPart& part : tensor.parts) {
      json entry = {{"file", part.file}, {"key", part.key}};
      if (part.slice != Extent()) entry["slice"] = {part.slice.begin, part.slice.end};
      if (part.range != Extent()) entry["range"] = {part.range.begin, part.range.end};
      one["parts"].push_back(std::move(entry));
    }
  }
  return result;
}

Extent extent_of(const json& from, const char* name) {
  if (!from.contains(name)) return {};
  const auto [begin, end] = from[name].get<std::pair<std::int64_t, std::int64_t>>();
  require_format(begin >= 0 && begin <= end && end <= kMostElements, "a part is out of range");
  return {begin, end};
}

StoredTensors tensors_in(const json& from) {
  StoredTensors result;
  for (const auto& [name, one] : from.items()) {
    StoredTensor& tensor = result[name];
    one.at("dtype").get_to(tensor.dtype);
    one.at("shape").get_to(tensor.shape);
    element_bytes(tensor.dtype), element_count(tensor.shape);
    const auto dimensions = static_cast<std::int64_t>(tensor.shape.size());
    tensor.dimension = one.value("dimension", std::int64_t{0});
    require_format(tensor.dimension >= 0 && tensor.dimension < std::max<std::int64_t>(dimensions, 1),
                   "'" + name + "' has no such dimension");
    tensor.order = one.value("order", std::vector<std::int64_t>());
    for (std::int64_t d = 0; !tensor.order.empty() && d < dimensions; ++d)
      require_format(std::ranges::count(tensor.order, d) == 1, "'" + name + "' has an order that is none");
    require_format(tensor.order.empty() || std::cmp_equal(tensor.order.size(), dimensions),
                   "'" + name + "' has an order that is none");
    for (const json& part : one.at("parts")) {
      tensor.parts.push_back({extent_of(part, "slice"), extent_of(part, "range"), part.value("file", ""),
                              part.value("key", name)});
    }
  }
  return result;
}

}  // namespace

/// Eight bytes at a time (M. Kounavis, F. Berry: "A Systematic Approach to Building High Performance
/// Software-Based CRC Generators", 2005).
std::uint32_t crc32(const void* data, std::size_t bytes, std::uint32_t before) {
  const auto* at = static_cast<const std::uint8_t*>(data);
  std::uint32_t crc = ~before;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kCrcTable[7 - i][word >> 8 * i & 0xFF];
  }
  for (; bytes > 0; ++at, --bytes) crc = crc >> 8 ^ kCrcTable[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

Extent StoredTensor::slice_of(const StoredPart& part) const {
  if (part.slice != Extent() || shape.empty()) return part.slice;
  return {0, shape[static_cast<std::size_t>(dimension)]};
}

std::int64_t StoredTensor::elements(const Extent& slice) const {
  if (shape.empty()) return 1;
  std::vector<std::int64_t> sizes = shape;
  sizes[static_cast<std::size_t>(dimension)] = slice.count();
  return element_count(sizes);
}

Extent StoredTensor::range_of(const StoredPart& part) const {
  return part.range != Extent() ? part.range : Extent{0, elements(slice_of(part))};
}

void StoredTensor::require_whole(const std::string& name) {
  std::ranges::sort(parts, std::less());
  const Extent all = slice_of({});
  std::int64_t slices = all.begin, ranges = 0;  // how far it is covered, and the slice that begins there
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Extent slice = slice_of(parts[i]), range = range_of(parts[i]);
    require_format(
        slice.begin == slices && slice.end <= all.end && range.begin == ranges,
        "the parts of '" + name + "' have a hole or an overlap before " + key_of(name, *this, parts[i]));
    ranges = range.end;
    if (i + 1 < parts.size() && parts[i + 1].slice == parts[i].slice) continue;
    require_format(ranges == elements(slice),
                   "the parts of '" + name + "' have a hole after " + key_of(name, *this, parts[i]));
    slices = slice.end, ranges = 0;
  }
  require_format(!parts.empty() && slices == all.end, "the parts of '" + name + "' do not reach its end");
}

std::uint64_t element_bytes(const std::string& dtype) {
  if (dtype == "BOOL") return 1;
  const std::size_t digit = dtype.find_first_of("0123456789");
  for (const char* known :
       {"F64", "I64", "U64", "F32", "I32", "U32", "F16", "BF16", "I16", "U16", "I8", "U8"})
    if (dtype == known) return std::stoul(dtype.substr(digit)) / 8;
  throw std::runtime_error("safetensors have no type '" + dtype + "'");
}

std::string key_of(const std::string& name, const StoredTensor& tensor, const StoredPart& part) {
  std::string key = name;
  if (part.slice != Extent()) {
    key += '[';
    for (std::int64_t d = 0; d < tensor.dimension; ++d) key += ":,";
    key += text_of(part.slice) + (tensor.dimension == 0 ? ",...]" : "]");
  }
  if (part.range != Extent()) key += '[' + text_of(part.range) + ']';
  return key;
}

std::string text_of(const StoredTensors& tensors) {
  return json_of(tensors).dump();
}

StoredTensors parse_tensors(std::string_view text) {
  return tensors_in(json::parse(text));
}

std::string text_of(const CheckpointIndex& index) {
  json files = json::object(), weights = json::object();
  std::uint64_t sum = 0;
  for (const auto& [name, file] : index.files)
    files[name] = {{"bytes", file.bytes}, {"crc32", hex(file.crc)}};
  for (const auto& [name, tensor] : index.tensors) {
    for (const StoredPart& part : tensor.parts) {
      weights[part.key] = part.file;
      sum += static_cast<std::uint64_t>(tensor.range_of(part).count()) * element_bytes(tensor.dtype);
    }
  }
  const json all = {
      {"metadata", {{"kolo_checkpoint", kIndexFormat}, {"step", index.step}, {"total_size", sum}}},
      {"files", files},
      {"tensors", json_of(index.tensors)},
      {"weight_map", weights}};
  const std::string text = all.dump().substr(1) + '\n';
  return "{\"crc32\":\"" + hex(crc32(text.data(), text.size())) + "\",\n" + text;
}

CheckpointIndex parse_index(std::string_view text) {
  constexpr std::string_view kBefore = "{\"crc32\":\"", kAfter = "\",\n";
  const std::size_t start = kBefore.size() + 8 + kAfter.size();
  require_format(text.starts_with(kBefore) && text.substr(0, start).ends_with(kAfter),
                 "it is no index of a checkpoint");
  require_format(text.substr(kBefore.size(), 8) == hex(crc32(text.data() + start, text.size() - start)),
                 "it is damaged: it has another checksum");
  const json all = json::parse(text);
  const json& metadata = all.at("metadata");
  const auto format = metadata.at("kolo_checkpoint").get<int>();
  require_format(format == kIndexFormat,
                 "it is of format " + std::to_string(format) + ", not " + std::to_string(kIndexFormat));
  CheckpointIndex index;
  metadata.at("step").get_to(index.step);
  for (const auto& [name, file] : all.at("files").items()) {
    require_format(name.find('/') == std::string::npos, "a file is in another folder");
    index.files[name] = {
        file.at("bytes").get<std::uint64_t>(),
        static_cast<std::uint32_t>(std::stoul(file.at("crc32").get<std::string>(), nullptr, 16))};
  }
  index.tensors = tensors_in(all.at("tensors"));
  for (auto& [name, tensor] : index.tensors) {
    tensor.require_whole(name);
    for (const StoredPart& part : tensor.parts)
      require_format(index.files.contains(part.file), "'" + part.key + "' is in no file");
  }
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
