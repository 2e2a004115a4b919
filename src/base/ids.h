// Indices with the thing that they count in their type: a task's id cannot index places.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace ferry {

/// The index of one of the things that `Tag` names, from 0 on; -1 stands for none.
template <typename Tag>
class Id {
 public:
  constexpr Id() = default;  // none
  // Converts from and to whole numbers without a word, until all code names its ids.
  template <std::integral Number>
  constexpr Id(Number number) : number_(static_cast<int>(number)) {}
  constexpr operator int() const { return number_; }

  constexpr bool valid() const { return number_ >= 0; }
  constexpr int number() const { return number_; }
  /// The id as a position in a vector. Requires: valid().
  constexpr std::size_t index() const { return static_cast<std::size_t>(number_); }

  constexpr Id& operator++() { return ++number_, *this; }
  constexpr Id& operator--() { return --number_, *this; }

 private:
  int number_ = -1;
};

/// Writes the number.
template <typename Tag>
std::string to_string(Id<Tag> id) {
  return std::to_string(id.number());
}
template <typename Tag>
std::ostream& operator<<(std::ostream& out, Id<Tag> id) {
  return out << id.number();
}

/// The ids from `first` to the one before `last`, for a loop over them.
template <typename IdType>
class IdRange {
 public:
  class Iterator {
   public:
    using value_type = IdType;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    explicit Iterator(IdType at) : at_(at) {}
    IdType operator*() const { return at_; }
    Iterator& operator++() { return ++at_, *this; }
    Iterator operator++(int) { return Iterator(IdType(++at_ - 1)); }
    bool operator==(const Iterator& other) const { return at_.number() == other.at_.number(); }

   private:
    IdType at_;
  };

  IdRange(IdType first, IdType last) : first_(first), last_(last) {}
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(last_); }

 private:
  IdType first_, last_;
};

/// A std::vector that is indexed by its own ids and by nothing else.
template <typename IdType, typename T>
class IdVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;

  decltype(auto) operator[](IdType id) { return std::vector<T>::operator[](id.index()); }
  decltype(auto) operator[](IdType id) const { return std::vector<T>::operator[](id.index()); }

  /// The id behind the last: that of the next element to be appended.
  IdType end_id() const { return IdType(static_cast<int>(this->size())); }
  /// All ids, in order.
  IdRange<IdType> ids() const { return {IdType(0), end_id()}; }
  bool has(IdType id) const { return id.valid() && id.index() < this->size(); }

  /// The id of the element at `at`; end_id() for end().
  IdType id_of(typename std::vector<T>::const_iterator at) const {
    return IdType(static_cast<int>(at - this->begin()));
  }

  /// Appends and returns the new element's id.
  IdType add(T element) {
    this->push_back(std::move(element));
    return --end_id();
  }
};

}  // namespace ferry

template <typename Tag>
struct std::hash<ferry::Id<Tag>> {
  std::size_t operator()(ferry::Id<Tag> id) const noexcept { return std::hash<int>()(id.number()); }
};
