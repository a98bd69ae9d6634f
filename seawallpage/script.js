(() => {
  // The page refreshes itself in place, so that where the reader has scrolled to, and the focus, stay as they are.
  const every = 2000
  const label = e => e && (e.getAttribute('href') || e.value)

  // Nothing changes under the reader's hands: a button that moves away loses the click.
  const isInHand = main => main.matches(':active') || !getSelection().isCollapsed || document.activeElement.matches('input')

  const refresh = async () => {
    const main = document.querySelector('#guards')
    if (document.hidden || isInHand(main)) return
    try {
      const answer = await fetch(location.href)
      // Without the style, which has another nonce than this page's and would be complained about.
      const text = (await answer.text()).replace(/<style[^]*<\/style>/, '')
      const page = new DOMParser().parseFromString(text, 'text/html')
      const fresh = page.querySelector('#guards')
      if (!fresh) throw new Error(answer.statusText)
      if (isInHand(main)) return // since it was asked for
      const focus = label(document.activeElement)
      main.replaceWith(document.adoptNode(fresh))
      if (focus) [...fresh.querySelectorAll('a,button')].find(e => label(e) === focus)?.focus()
      document.title = page.title
      document.querySelector('link').href = page.querySelector('link').href
      const now = document.querySelector('#summary'), then = page.querySelector('#summary')
      // Only if it has changed, for a screen reader reads it out.
      if (now.textContent !== then.textContent) now.textContent = then.textContent
      now.className = then.className
    } catch {
      document.querySelector('#stale').textContent = ' · out of date: the server does not answer'
    }
  }
  const loop = () => setTimeout(() => refresh().finally(loop), every)
  loop()
  document.addEventListener('visibilitychange', refresh)
})()
