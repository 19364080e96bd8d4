import { readFileSync } from "node:fs"
import { join } from "node:path"

const README = join(import.meta.dirname, "../../README.md")

/** The README's blocks of a language, each as its lines. */
export const readmeBlocks = (language: string): string[][] =>
  [...readFileSync(README, "utf8").matchAll(/^```(\w+)\n(.*?)^```$/gms)]
    .filter(([, name]) => name === language)
    .map(([, , text = ""]) => text.split("\n").filter((line) => line.trim() !== ""))
