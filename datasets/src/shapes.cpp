/* SPDX-License-Identifier: Apache-2.0
 *
 * shapes.cpp - a program to be recorded: C++ as it is written.  Virtual calls with several and
 * virtual bases, exceptions through many frames with destructors on the way, rethrown and nested,
 * std::function, lambdas, templates, containers, sorting; recursion deeper than a return stack.
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Shape {
	virtual ~Shape() = default;
	virtual double area() const = 0;
	virtual const char *name() const { return "shape"; }
};

struct Box : virtual Shape {
	Box(double w, double h) : w(w), h(h) {}
	double area() const override { return w * h; }
	const char *name() const override { return "box"; }
	double w, h;
};

struct Square final : Box {
	explicit Square(double a) : Box(a, a) {}
	const char *name() const override { return "square"; }
};

struct Counted {
	virtual ~Counted() { alive--; }
	Counted() { alive++; }
	virtual int weight() const { return 1; }
	static int alive;
};
int Counted::alive;

struct Disc : virtual Shape, Counted {
	explicit Disc(double r) : r(r) {}
	double area() const override { return 3.0 * r * r; }
	int weight() const override { return static_cast<int>(r); }
	double r;
};

struct Guard {
	explicit Guard(int &n) : n(n) {}
	~Guard() { n++; }
	int &n;
};

struct TooDeep : std::runtime_error {
	explicit TooDeep(int depth) : std::runtime_error("too deep: " + std::to_string(depth)), depth(depth) {}
	int depth;
};

std::uint32_t seed = 99;

std::uint32_t next()
{
	return seed = seed * 1664525u + 1013904223u;
}

[[gnu::noinline]] int dive(int depth, int limit, int &unwound)
{
	Guard guard(unwound);

	if (depth == limit)
		throw TooDeep(depth);
	return 1 + dive(depth + 1, limit, unwound);
}

[[gnu::noinline]] int count(int n)
{
	return n == 0 ? 0 : 1 + count(n - 1) + (n % 64 == 0 ? count(n / 2) : 0);
}

template <typename T, typename F> T fold(const std::vector<T> &values, T start, F f)
{
	for (const T &value : values)
		start = f(start, value);
	return start;
}

void shapes()
{
	std::vector<std::unique_ptr<Shape>> all;
	std::map<std::string, int> names;
	double area = 0;
	int weight = 0;

	for (int i = 0; i < 120; i++) {
		switch (next() >> 16 & 3) {
		case 0:
			all.push_back(std::make_unique<Box>(i, 2));
			break;
		case 1:
			all.push_back(std::make_unique<Square>(i % 9));
			break;
		default:
			all.push_back(std::make_unique<Disc>(i % 7));
			break;
		}
	}
	std::sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a->area() < b->area(); });
	for (const auto &shape : all) {
		area += shape->area();
		names[shape->name()]++;
		if (const auto *counted = dynamic_cast<const Counted *>(shape.get()))
			weight += counted->weight();
	}
	std::printf("area %.1f weight %d alive %d\n", area, weight, Counted::alive);
	for (const auto &[name, n] : names)
		std::printf("%s %d\n", name.c_str(), n);
}

void exceptions()
{
	int unwound = 0, seen = 0, nested = 0;

	for (int limit = 1; limit < 100; limit += 7) {
		try {
			try {
				seen += dive(0, limit, unwound);
			} catch (const TooDeep &e) {
				if (e.depth % 2 == 0)
					throw;
				try {
					std::throw_with_nested(std::logic_error("odd"));
				} catch (const std::exception &outer) {
					std::rethrow_if_nested(outer);
				}
			}
		} catch (const TooDeep &e) {
			nested += e.depth;
		} catch (const std::exception &) {
			nested += 1000;
		}
	}
	try {
		(void)std::vector<int>(3).at(7);
	} catch (const std::out_of_range &) {
		seen++;
	}
	std::printf("unwound %d nested %d seen %d\n", unwound, nested, seen);
}

void functions()
{
	std::vector<std::function<long(long)>> steps;
	std::vector<long> values(64);
	long total = 0;

	for (long k = 1; k < 20; k++) {
		if (k % 3 == 0)
			steps.emplace_back([k](long x) { return x * k + 1; });
		else if (k % 3 == 1)
			steps.emplace_back([k, &total](long x) { total += x % k; return x ^ k; });
		else
			steps.emplace_back(std::negate<long>());
	}
	std::iota(values.begin(), values.end(), 1);
	for (const auto &step : steps)
		std::transform(values.begin(), values.end(), values.begin(), [&](long x) { return step(x) % 100003; });
	std::stable_sort(values.begin(), values.end(), std::greater<>());
	std::printf("total %ld fold %ld\n", total, fold(values, 0L, [](long a, long b) { return (a * 31 + b) % 1000003; }));
}

} // namespace

int main()
{
	shapes();
	exceptions();
	functions();
	std::printf("count %d\n", count(300));
	return Counted::alive == 0 ? 0 : 1;
}
