import { readdir } from "node:fs/promises"
import { pathToFileURL } from "node:url"
import type { Benchmark } from "./benchmark.ts"

/** The names of all benchmarks in a folder, sorted: `cli.help` for `cli.help.ts`. */
export async function listBenchmarks(folder: string): Promise<string[]> {
  return (await readdir(folder))
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
    .map((file) => file.slice(0, -".ts".length))
    .sort()
}

export async function loadBenchmark(folder: string, name: string): Promise<Benchmark<unknown>> {
  return (await import(pathToFileURL(`${folder}/${name}.ts`).href)).default
}
