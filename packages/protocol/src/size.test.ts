import { expect, it } from "vitest"
import { Size, sizeBytes } from "./size.ts"

it.each([
  ["500M", 500_000_000],
  ["20G", 20_000_000_000],
  ["1T", 1_000_000_000_000],
  ["0", 0],
])("reads %s as %d bytes", (text, bytes) => {
  expect(sizeBytes(Size.parse(text))).toBe(bytes)
})

it.each(["", "20", "G", "-1G", "1.5G", "20g", "020G", "20GB"])("refuses %j", (text) => {
  expect(Size.safeParse(text).success).toBe(false)
})
