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
  const copy = Symbol("copy")
  transients.change(sandbox, { isBeingMade: true })
  transients.change(sandbox, { copies: new Set([copy]) })
  transients.change(sandbox, { isBeingMade: false })
  expect(transients.isReserved(sandbox)).toBe(true)
  expect(transients.copied()).toEqual([sandbox])
  transients.change(sandbox, { copies: new Set() })
  expect(transients.isReserved(sandbox)).toBe(false)
  expect(transients.copied()).toEqual([])
})

it("drops a record that says nothing any more", () => {
  const transients = new Transients()
  const sandbox = newId.sandbox()
  const untouched = transients.get(sandbox)
  transients.change(sandbox, { isFrozen: true, copies: new Set([Symbol("copy")]) })
  expect(transients.get(sandbox)).not.toBe(untouched)
  transients.change(sandbox, { isFrozen: false, copies: new Set() })
  expect(transients.get(sandbox)).toBe(untouched)
})

it("forgets a sandbox that is gone, but not the copies that are still taken from it", () => {
  const transients = new Transients()
  const sandbox = newId.sandbox()
  const copies = new Set([Symbol("copy")])
  const pressure = "the disk has 1 MB left"
  transients.change(sandbox, { pressure, isSuccessorAsked: true, copies, isPausedForCopy: true })
  transients.forget(sandbox)
  expect(transients.get(sandbox)).toMatchObject({
    pressure: undefined,
    isSuccessorAsked: false,
    copies,
    isPausedForCopy: true,
  })
})
