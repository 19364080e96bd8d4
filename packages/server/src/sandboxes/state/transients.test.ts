import { newId } from "@berth/protocol/ids"
import { expect, it } from "vitest"
import { Transients } from "./transients.ts"

it("shows a sandbox without a record as one with which nothing is done", () => {
  const transients = new Transients()
  const sandbox = newId.sandbox()
  expect(transients.get(sandbox)).toMatchObject({ isBeingMade: false, isFrozen: false })
  expect(transients.isReserved(sandbox)).toBe(false)
})

it("reserves a sandbox while it is being made, and while any copy is taken from it", () => {
  const transients = new Transients()
  const sandbox = newId.sandbox()
  const [one, other] = [Symbol("one"), Symbol("other")]
  transients.of(sandbox).isBeingMade = true
  transients.of(sandbox).copies.add(one).add(other)
  transients.of(sandbox).isBeingMade = false
  transients.of(sandbox).copies.delete(one)
  expect(transients.isReserved(sandbox)).toBe(true)
  expect(transients.copied()).toEqual([sandbox])
  transients.of(sandbox).copies.delete(other)
  expect(transients.isReserved(sandbox)).toBe(false)
  expect(transients.copied()).toEqual([])
})

it("forgets a sandbox", () => {
  const transients = new Transients()
  const sandbox = newId.sandbox()
  transients.of(sandbox).pressure = "the disk has 1 MB left"
  transients.forget(sandbox)
  expect(transients.get(sandbox).pressure).toBeUndefined()
})
