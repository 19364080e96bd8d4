import { expect, it } from "vitest"
import { fstab } from "./fstab.ts"

it("writes a line for each entry, with separators escaped", () => {
  const table = fstab([
    { source: "/a b", target: "/t\tx", type: "none", options: ["bind"] },
    { source: "overlay", target: "/y\\z#", type: "overlay", options: ["lowerdir=/l 1", "ro"] },
  ])
  expect(table).toBe(
    "/a\\040b /t\\011x none bind 0 0\noverlay /y\\134z\\043 overlay lowerdir=/l\\0401,ro 0 0\n",
  )
})
