import { expect, it } from "vitest"
import { hideCredentials, withoutCredentials } from "./url-credentials.ts"

it.each([
  ["https://h.test/b.git", "https://h.test/b.git"],
  ["https://me:secret@h.test/b.git", "https://h.test/b.git"],
  ["HTTP://me:se@cr@et@h.test/b@v1.git", "HTTP://h.test/b@v1.git"],
  ["https://me:se?cr#et@h.test/b.git", "https://h.test/b.git"],
  ["https://me@h.test", "https://h.test"],
  ["ssh://git@h.test/b.git", "ssh://git@h.test/b.git"],
])("the URL %j without credentials is %j", (url, left) => {
  expect(withoutCredentials(url)).toBe(left)
})

it("hiding covers the credentials of every URL in a text, whatever the password has in it", () => {
  const said = "fatal: 'https://me:s@cret@h.test/a@b': asked ssh://me:x@y@h.test/c by me@h.test"
  expect(hideCredentials(said)).toBe(
    "fatal: 'https://h.test/a@b': asked ssh://h.test/c by me@h.test",
  )
})
