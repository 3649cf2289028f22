// libtorch's tensors, included so that every compiler takes them, and its errors in words. Include it before
// any other header of libtorch.
#pragma once

// In C++20 clang 14 rejects libtorch's headers (std::vector of a class that is declared only) unless this one
// is the first. It brings in at::Tensor.
#include <ATen/core/ivalue.h>

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "kolo/error.hpp"

namespace kolo {

/// What `action` throws, in words and without the stack that libtorch adds; empty if it throws nothing.
template <typename Action>
std::string problem_of(const Action& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
  return {};
}

/// Runs `action`, the load() of `thing`. What it throws comes out as InvalidArgumentError that begins with
/// the thing; kolo's own errors stay as they are.
template <typename Action>
void load_or_refuse(const char* thing, const Action& action) {
  try {
    action();
  } catch (const Error&) {
    throw;
  } catch (...) {
    throw InvalidArgumentError(std::string(thing) + ": " + problem_of([] { throw; }), {});
  }
}

}  // namespace kolo
