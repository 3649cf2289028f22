// What goes wrong in a call of libtorch, in words.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "kolo/error.hpp"

namespace kolo::train {

/// What `action` throws, without libtorch's stack; empty where it throws nothing.
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

/// Runs the load() of a thing. What it throws comes out as InvalidArgumentError with the thing's name; kolo's
/// own errors stay as they are.
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

}  // namespace kolo::train
