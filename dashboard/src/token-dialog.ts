// Where a token is given and forgotten.

import { byId } from './dom.ts';
import { setToken, token } from './token.ts';

export function startToken(changed: () => void): void {
  const dialog = byId<HTMLDialogElement>('token-dialog');
  const field = byId<HTMLInputElement>('token-value');
  const open = byId('token-open');
  const show = () => open.classList.toggle('on', token() !== '');
  open.addEventListener('click', () => {
    field.value = token();
    dialog.returnValue = '';
    dialog.showModal();
    field.select();
  });
  field.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    // Enter would press the form's first button, which forgets.
    event.preventDefault();
    dialog.close('use');
  });
  dialog.addEventListener('close', () => {
    const [use, forget] = [dialog.returnValue === 'use', dialog.returnValue === 'forget'];
    if (use || forget) {
      setToken(use ? field.value.trim() : '');
      changed();
    }
    field.value = '';
    show();
  });
  show();
}
