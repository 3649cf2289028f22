// The wire formats. The 16-bit ones are casts.
#include "kernels/wire_format.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/wire_format.cpp"
#include "hwy/foreach_target.h"
// Per-target headers come after foreach_target.h.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/element.hpp"
#include "hwy/highway.h"
#include "kernels/int8_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace kolo::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The bits of the largest magnitude. Magnitudes compare as integers; infinity and NaN are the largest.
HWY_INLINE std::uint32_t largest_magnitude(const float* numbers, std::size_t count) {
  const hn::ScalableTag<std::int32_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(d, 0x7FFFFFFF);
  const auto* bits = reinterpret_cast<const std::uint8_t*>(numbers);
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto raw = hn::BitCast(d, hn::LoadU(hn::ScalableTag<float>(), numbers + i));
    most = hn::Max(most, hn::And(raw, magnitude));
  }
  auto largest = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(d, most)));
  for (; i < count; ++i) largest = std::max(largest, load_element<std::uint32_t>(bits, i) & 0x7FFFFFFFu);
  return largest;
}

/// to[i] = from[i] * factor, rounded to the nearest even; at most 127.
HWY_INLINE void quantize(std::int8_t* to, const float* from, std::size_t count, float factor) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::int8_t, decltype(d)> bytes;
  const std::size_t lanes = hn::Lanes(d);
  const auto by = hn::Set(d, factor);
  const auto one = [&](const float* at) HWY_ATTR {
    return hn::DemoteTo(bytes, hn::NearestInt(hn::Mul(hn::LoadU(d, at), by)));
  };
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(one(from + i), bytes, to + i);
  if (const std::size_t rest = count - i; rest != 0) {
    HWY_ALIGN float last[hn::MaxLanes(d)] = {};
    HWY_ALIGN std::int8_t quantized[hn::MaxLanes(d)];
    std::memcpy(last, from + i, rest * sizeof(float));
    hn::Store(one(last), bytes, quantized);
    std::memcpy(to + i, quantized, rest);
  }
}

/// to[i] = from[i] * factor.
HWY_INLINE void scale_up(float* to, const std::int8_t* from, std::size_t count, float factor) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> integers;
  const hn::Rebind<std::int8_t, decltype(d)> bytes;
  const std::size_t lanes = hn::Lanes(d);
  const auto by = hn::Set(d, factor);
  const auto one = [&](const std::int8_t* at) HWY_ATTR {
    return hn::Mul(hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(bytes, at))), by);
  };
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(one(from + i), d, to + i);
  if (const std::size_t rest = count - i; rest != 0) {
    HWY_ALIGN std::int8_t last[hn::MaxLanes(d)] = {};
    HWY_ALIGN float scaled[hn::MaxLanes(d)];
    std::memcpy(last, from + i, rest);
    hn::Store(one(last), d, scaled);
    std::memcpy(to + i, scaled, rest * sizeof(float));
  }
}

void encode_int8(void* bytes, const void* numbers, std::size_t count) {
  auto* to = static_cast<std::int8_t*>(bytes);
  const auto* from = static_cast<const float*>(numbers);
  for (std::size_t done = 0; done < count; done += kInt8Block) {
    const std::size_t size = std::min(kInt8Block, count - done);
    const float scale = int8_scale(largest_magnitude(from + done, size));
    store_element(to, 0, scale);
    to += sizeof scale;
    if (std::isnan(scale)) {
      std::memset(to, 0, size);
    } else {
      quantize(to, from + done, size, 1.0f / scale);
    }
    to += size;
  }
}

void decode_int8(void* numbers, const void* bytes, std::size_t count) {
  auto* to = static_cast<float*>(numbers);
  const auto* from = static_cast<const std::int8_t*>(bytes);
  for (std::size_t done = 0; done < count; done += kInt8Block) {
    const std::size_t size = std::min(kInt8Block, count - done);
    scale_up(to + done, from + sizeof(float), size, load_element<float>(from, 0));
    from += sizeof(float) + size;
  }
}

CastFn find_int8_encoder() {
  return encode_int8;
}
CastFn find_int8_decoder() {
  return decode_int8;
}

}  // namespace kolo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kolo::kernels {

HWY_EXPORT(find_int8_encoder);
HWY_EXPORT(find_int8_decoder);

WireFormat wire_format(Wire wire) {
  const auto as = [](DType dtype) {
    return WireFormat{1, 0, size_of(dtype), cast_function(dtype, DType::float32),
                      cast_function(DType::float32, dtype)};
  };
  switch (wire) {
    case Wire::bfloat16:
      return as(DType::bfloat16);
    case Wire::float16:
      return as(DType::float16);
    case Wire::int8:
      return {kInt8Block, sizeof(float), 1, HWY_DYNAMIC_DISPATCH(find_int8_encoder)(),
              HWY_DYNAMIC_DISPATCH(find_int8_decoder)()};
    case Wire::native:
      break;
  }
  return as(DType::float32);
}

namespace reference {

void encode_int8(void* bytes, const float* numbers, std::size_t count) {
  auto* to = static_cast<std::uint8_t*>(bytes);
  for (std::size_t done = 0; done < count; done += kInt8Block) {
    const std::size_t size = std::min(kInt8Block, count - done);
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < size; ++i) {
      largest = std::max(largest, std::bit_cast<std::uint32_t>(numbers[done + i]) & 0x7FFFFFFFu);
    }
    const float scale = int8_scale(largest);
    store_element(to, 0, scale);
    to += sizeof scale;
    for (std::size_t i = 0; i < size; ++i) {
      const float q = std::isnan(scale) ? 0.0f : std::nearbyint(numbers[done + i] * (1.0f / scale));
      *to++ = static_cast<std::uint8_t>(static_cast<std::int8_t>(q));
    }
  }
}

void decode_int8(float* numbers, const void* bytes, std::size_t count) {
  const auto* from = static_cast<const std::int8_t*>(bytes);
  for (std::size_t done = 0; done < count; done += kInt8Block) {
    const float scale = load_element<float>(from, 0);
    from += sizeof scale;
    for (std::size_t i = done; i < std::min(done + kInt8Block, count); ++i) {
      numbers[i] = static_cast<float>(*from++) * scale;
    }
  }
}

}  // namespace reference

}  // namespace kolo::kernels
#endif  // HWY_ONCE
